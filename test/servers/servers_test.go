//go:build linux

package servers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestALaterLineReplacesADefaultOfTheSameKey(t *testing.T) {
	text := config("/d", 2181, Options{Config: []string{"tickTime=100", "snapCount=7"}})
	if strings.Contains(text, "tickTime=2000") || !strings.Contains(text, "\ntickTime=100\nsnapCount=7\n") {
		t.Fatalf("zoo.cfg:\n%s", text)
	}
}

func TestPropertiesAreDefinedOnTheCommandLine(t *testing.T) {
	t.Setenv(BinaryVariable, "/usr/bin/conclave")
	o := Options{Properties: map[string]string{"zookeeper.b": "2", "jute.maxbuffer": "1"}}
	args, err := new(conclave).command(t.Context(), "zoo.cfg", o)
	want := "/usr/bin/conclave serve --config zoo.cfg -D jute.maxbuffer=1 -D zookeeper.b=2"
	if got := strings.Join(args, " "); err != nil || got != want {
		t.Fatalf("%s, %v", got, err)
	}
}

func TestMain(m *testing.M) {
	Supervised()
	os.Exit(m.Run())
}

// sleeper is a kind whose process serves nothing, for tests of starting and ending without
// Java or a build.
type sleeper struct{ script string }

func (sleeper) Name() string                  { return "sleeper" }
func (sleeper) Install(context.Context) error { return nil }
func (s sleeper) command(context.Context, string, Options) ([]string, error) {
	return []string{"/bin/sh", "-c", s.script}, nil
}

func TestAServerThatEndsAtOnceIsAnErrorWithItsLog(t *testing.T) {
	_, err := Start(t.Context(), sleeper{"echo no such key; exit 3"}, Options{})
	if err == nil || !strings.Contains(err.Error(), "no such key") || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("error: %v", err)
	}
}

func TestCPUAndMemoryOfARunningProcessAreRead(t *testing.T) {
	s := &Server{Kind: sleeper{"read line"}, scratch: t.TempDir(), ended: make(chan struct{})}
	s.LogFile = filepath.Join(s.scratch, "log")
	if err := s.run([]string{"/bin/sleep", "60"}); err != nil {
		t.Fatal(err)
	}
	if rss, err := s.RSS(); err != nil || rss < 4096 {
		t.Errorf("resident memory %d, %v", rss, err)
	}
	if cpu, err := s.CPU(); err != nil || cpu < 0 {
		t.Errorf("cpu time %v, %v", cpu, err)
	}
	if err := s.Kill(); err != nil || s.ExitError() == nil {
		t.Errorf("kill: %v, exit: %v", err, s.ExitError())
	}
	if _, err := os.Stat(s.scratch); !os.IsNotExist(err) {
		t.Errorf("scratch directory after Kill: %v", err)
	}
}

// syncing starts a process that does a sync for each line it reads, and reports the result.
// It uses dd, which exists everywhere.
func syncing(t *testing.T, d *Disk) func() (time.Duration, string) {
	t.Helper()
	dir := t.TempDir()
	return func() (time.Duration, string) {
		s := &Server{Kind: sleeper{}, scratch: dir, LogFile: filepath.Join(dir, "log"), ended: make(chan struct{}), options: Options{Disk: d}}
		started := time.Now()
		script := "dd if=/dev/zero of=" + dir + "/file bs=1 count=1 conv=fsync 2>&1 || echo failed"
		if err := s.run([]string{"/bin/sh", "-c", script}); err != nil {
			t.Fatal(err)
		}
		<-s.ended
		return time.Since(started), s.Log()
	}
}

func TestADiskIsSlowOrFailsAndHeals(t *testing.T) {
	d := &Disk{}
	sync := syncing(t, d)
	if _, log := sync(); strings.Contains(log, "failed") {
		t.Fatalf("a healthy disk: %s", log)
	}
	const delay = 300 * time.Millisecond
	d.Slow(delay)
	if took, log := sync(); took < delay || strings.Contains(log, "failed") {
		t.Errorf("a slow disk took %v: %s", took, log)
	}
	d.Heal()
	d.Fail(syscall.EIO)
	if _, log := sync(); !strings.Contains(log, "failed") || d.Failed() != 1 {
		t.Errorf("a broken disk, %d syncs failed: %s", d.Failed(), log)
	}
	d.Heal()
	if _, log := sync(); strings.Contains(log, "failed") {
		t.Errorf("a healed disk: %s", log)
	}
}
