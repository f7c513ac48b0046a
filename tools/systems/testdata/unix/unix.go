// Package unix compiles only on systems that have flock.
package unix

import "syscall"

// Lock locks a file.
func Lock(fd int) error { return syscall.Flock(fd, syscall.LOCK_EX) }
