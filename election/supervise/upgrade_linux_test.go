package supervise_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestUpgradeUnderAWaitingCandidateChangesNothing: its program is replaced or removed
// before it leads.
func TestUpgradeUnderAWaitingCandidateChangesNothing(t *testing.T) {
	image, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for name, upgrade := range map[string]func(program, next string) error{
		"replaced": func(program, next string) error { return os.Rename(next, program) },
		"removed":  func(program, _ string) error { return os.Remove(program) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program, next, end := filepath.Join(dir, "program"), filepath.Join(dir, "next"), filepath.Join(dir, "end")
			if err := os.WriteFile(program, image, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(next, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			first := start(t, testOrder{Dir: dir, Args: []string{"sh", "-c", "until [ -e " + end + " ]; do sleep 0.01; done"}})
			awaittest.Until(t, "the first waits or leads", func() bool { found, _ := filepath.Glob(dir + "/test/line/*"); return len(found) == 1 })
			second := start(t, testOrder{Dir: dir, Args: []string{"sh", "-c", "exit 8"}, program: program})
			awaittest.Until(t, "the second waits", func() bool { found, _ := filepath.Glob(dir + "/test/line/*"); return len(found) == 2 })
			if err := upgrade(program, next); err != nil {
				t.Fatal(err)
			}
			write(t, end)
			if codes := [2]int{first.code(), second.code()}; codes != [2]int{0, 8} {
				t.Errorf("codes %v\n%s", codes, &second.output)
			}
		})
	}
}
