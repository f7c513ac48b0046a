package osfs

import (
	"errors"
	"math/bits"
	"os"
	"syscall"
)

// datasync flushes content and length but not the times, which saves a journal
// write for each sync of a log whose space is already allocated.
func datasync(f *os.File) error {
	return control(f, "fdatasync", func(fd int) error { return syscall.Fdatasync(fd) })
}

// allocate reserves space from old to size. The new bytes read as zero.
func allocate(f *os.File, old, size int64) error {
	err := control(f, "fallocate", func(fd int) error { return syscall.Fallocate(fd, 0, old, size-old) })
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return errNotSupported
	}
	return err
}

// Prefetch implements vfs.Prefetcher. The call has different arguments on 32-bit machines.
func (f *file) Prefetch(offset, bytes int64) {
	if bits.UintSize == 64 {
		_ = control(f.File, "readahead", func(fd int) error {
			_, _, _ = syscall.Syscall(syscall.SYS_READAHEAD, uintptr(fd), uintptr(offset), uintptr(bytes))
			return nil
		})
	}
}

// control runs a system call on f's descriptor, and repeats it if a signal interrupts it.
func control(f *os.File, op string, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = raw.Control(func(fd uintptr) {
		for {
			if callErr = call(int(fd)); callErr != syscall.EINTR {
				return
			}
		}
	})
	if err == nil && callErr != nil {
		err = &os.PathError{Op: op, Path: f.Name(), Err: callErr}
	}
	return err
}
