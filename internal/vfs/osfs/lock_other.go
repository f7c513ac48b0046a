//go:build !unix || solaris || aix

package osfs

import (
	"errors"
	"io"
	"os"
)

var errNoLock = errors.New("this system has no lock that ends with its process, so nothing would keep a second server out: run servers on Linux or macOS")

// lock always fails on this system: without a lock, two servers in one directory could destroy it.
func (FS) lock(dir string) (io.Closer, error) {
	return nil, &os.PathError{Op: "lock", Path: dir, Err: errNoLock}
}

// syncDir does nothing: this system orders changes of names itself.
func syncDir(*os.File) error { return nil }
