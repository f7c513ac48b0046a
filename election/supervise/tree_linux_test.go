package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestNumberThatHasPassedToAnotherProcessIsNotSignalled: between a look at /proc
// and a signal, a process may end and its number may be reused.
func TestNumberThatHasPassedToAnotherProcessIsNotSignalled(t *testing.T) {
	command := exec.Command("sleep", "1000")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	found, ok := processOf(command.Process.Pid)
	if !ok || found.started == 0 {
		t.Fatalf("%+v", found)
	}
	before := found
	before.started-- // the previous process with this number
	before.signal(syscall.SIGTERM)
	found.signal(syscall.SIGUSR1) // the process dies of the first signal that arrives
	_ = command.Wait()
	status, ok := command.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGUSR1 {
		t.Errorf("it ended with %v, by the signal that was for another", command.ProcessState)
	}
}

// TestSlowSupervisorIsNotKilled, only a stopped one is: on a busy machine it may
// take seconds to notice the end of its command.
func TestSlowSupervisorIsNotKilled(t *testing.T) {
	command := exec.Command("sleep", "1000")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	const waited = waitMax + time.Second
	if overdue(waited, isStopped(command.Process.Pid)) {
		t.Errorf("one that runs is killed after %v", waited)
	}
	_ = command.Process.Signal(syscall.SIGSTOP)
	awaittest.Until(t, "one that is stopped is killed", func() bool { return overdue(waited, isStopped(command.Process.Pid)) })
}

// TestProcOfAnotherNamespaceIsRefused: descendants with sessions of their own would
// outlive the leadership unseen.
func TestProcOfAnotherNamespaceIsRefused(t *testing.T) {
	if err := checkProc(procDir); err != nil {
		t.Errorf("our own: %v", err)
	}
	foreign := t.TempDir()
	if err := os.Symlink("0", filepath.Join(foreign, "self")); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{foreign: "another pid namespace", t.TempDir(): "no such file"} {
		if err := checkProc(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected %q, got %v", want, err)
		}
	}
}
