//go:build unix && !solaris && !aix

package osfs

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/conclave-project/conclave/internal/vfs"
)

// lock takes flock on the directory itself. So no file is added to a directory
// that other programs read, and the kernel releases the lock with the last
// descriptor.
func (fs FS) lock(dir string) (io.Closer, error) {
	opened, err := fs.open(dir, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	d := opened.(*file)
	err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return d, nil
	}
	_ = d.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = vfs.ErrLocked
	}
	return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
}

func syncDir(d *os.File) error { return d.Sync() }
