//go:build unix

package electiontest

import "syscall"

// freeze stops the process, as a debugger or a full hypervisor does.
func (p *process) freeze() { _ = p.command.Process.Signal(syscall.SIGSTOP) }

// thaw lets it go on.
func (p *process) thaw() { _ = p.command.Process.Signal(syscall.SIGCONT) }
