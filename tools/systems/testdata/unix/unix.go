// Package unix is right where there are files of one process at a time by flock alone.
package unix

import "syscall"

// Lock locks a file.
func Lock(fd int) error { return syscall.Flock(fd, syscall.LOCK_EX) }
