//go:build !linux

package command

import "syscall"

func noOrphan() *syscall.SysProcAttr { return nil }
