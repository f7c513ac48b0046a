//go:build !unix

package fence

import (
	"errors"
	"os"
)

func tryLock(*os.File) (bool, error) {
	return false, errors.New("this system has no lock on files that goes with its process; keep the resource in a store")
}

// keep copies the mode of the old file.
func keep(file *os.File, old os.FileInfo) { _ = file.Chmod(old.Mode().Perm()) }
