package command

import "syscall"

// noOrphan has a process told to end when the thread that started it has ended.
func noOrphan() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
