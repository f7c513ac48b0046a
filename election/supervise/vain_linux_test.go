package supervise_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestWhatCannotBeStartedForAMomentEndsNoForeverRun: the worker is removed before its
// new version is there, or guardians end before they begin. The run reports this, and
// goes on when it can.
func TestWhatCannotBeStartedForAMomentEndsNoForeverRun(t *testing.T) {
	script := []byte("#!/bin/sh\necho acts >> $ACTING\nexec sleep 1000\n")
	for name, test := range map[string]struct {
		breaks, heals func(worker, ends string) error
		remark        string
	}{
		"command": {func(worker, _ string) error { return os.Remove(worker) },
			func(worker, _ string) error {
				if err := os.WriteFile(worker+".new", script, 0o700); err != nil {
					return err
				}
				return os.Rename(worker+".new", worker)
			}, "no such file"},
		"guardian": {func(_, ends string) error { return os.WriteFile(ends, nil, 0o600) },
			func(_, ends string) error { return os.Remove(ends) }, "before it began"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, files := t.TempDir(), t.TempDir()
			worker, ends, acting, end := filepath.Join(files, "worker"), filepath.Join(files, "ends"),
				filepath.Join(files, "acting"), filepath.Join(files, "end")
			if err := os.WriteFile(worker, script, 0o700); err != nil {
				t.Fatal(err)
			}
			first := start(t, testOrder{Dir: dir, Lease: 3 * time.Second,
				Args: []string{"sh", "-c", "echo acts >> " + acting + "; until [ -e " + end + " ]; do sleep 0.01; done"}})
			awaittest.Until(t, "the first acts", func() bool { return len(lines(acting)) == 1 })
			second := start(t, testOrder{Dir: dir, Lease: 3 * time.Second, Args: []string{worker}, Forever: true,
				Env: []string{"ACTING=" + acting, endEnv + "=" + ends}})
			awaittest.Until(t, "the second waits", func() bool { found, _ := filepath.Glob(dir + "/test/line/*"); return len(found) == 2 })
			if err := test.breaks(worker, ends); err != nil {
				t.Fatal(err)
			}
			write(t, end)
			first.code()
			awaittest.Until(t, "it has led twice in vain", func() bool {
				text, _ := os.ReadFile(dir + "/test/history")
				return strings.Count(string(text), "\n") >= 3
			})
			if err := test.heals(worker, ends); err != nil {
				t.Fatal(err)
			}
			awaittest.Until(t, "the worker acts", func() bool { return len(lines(acting)) == 2 })
			second.signal(syscall.SIGTERM)
			second.code()
			if !strings.Contains(second.output.String(), test.remark) {
				t.Errorf("output %q does not say %q", &second.output, test.remark)
			}
		})
	}
}
