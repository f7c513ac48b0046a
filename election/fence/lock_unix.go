//go:build unix

package fence

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the kernel's lock on an open file if nobody has it. It goes
// with the file, also when the process is killed.
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
