//go:build unix

package file

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func hasLocks() error { return nil }

// tryLock takes the kernel's lock on an open file if it is free.
func tryLock(file *os.File) (bool, error) { return flock(file, syscall.LOCK_EX) }

// tryShare takes a shared lock if nobody holds an exclusive one.
func tryShare(file *os.File) (bool, error) { return flock(file, syscall.LOCK_SH) }

func flock(file *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case errors.Is(err, syscall.EINTR):
		default:
			return false, os.NewSyscallError("flock", err)
		}
	}
}

// numbers returns the device and the inode of a file.
func numbers(file os.FileInfo) string {
	at := file.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%x:%x", uint64(at.Dev), uint64(at.Ino))
}
