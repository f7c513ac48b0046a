//go:build unix

package electiontest

import (
	"syscall"
	"testing"
)

// freeze stops the process, as a debugger or a full hypervisor does.
func (p *process) freeze() { _ = p.command.Process.Signal(syscall.SIGSTOP) }

// thaw lets the process go on.
func (p *process) thaw() { _ = p.command.Process.Signal(syscall.SIGCONT) }

// freeze stops any process until the end of the test.
func freeze(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
}
