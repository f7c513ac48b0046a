//go:build !unix || solaris || aix

package osfs

import (
	"errors"
	"io"
	"os"
)

var errNoLock = errors.New("this system has no lock that ends with its process, so nothing would keep a second server out: run servers on Linux or macOS")

// lock refuses: two servers in one directory would destroy it.
func lock(dir string) (io.Closer, error) {
	return nil, &os.PathError{Op: "lock", Path: dir, Err: errNoLock}
}

// syncDir has no counterpart on this system, which orders names by itself.
func syncDir(*os.File) error { return nil }
