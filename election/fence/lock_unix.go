//go:build unix

package fence

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the kernel's lock on an open file if it is free. The lock ends with the
// open file, so also when the process is killed.
func tryLock(file *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
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

// keep copies owner, group and mode of the old file, as far as this user may: the operator
// decides who reads the file.
func keep(file *os.File, old os.FileInfo) {
	if stat, ok := old.Sys().(*syscall.Stat_t); ok {
		_ = file.Chown(int(stat.Uid), int(stat.Gid))
	}
	_ = file.Chmod(old.Mode().Perm())
}
