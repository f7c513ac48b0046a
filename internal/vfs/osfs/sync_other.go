//go:build !linux

package osfs

import "os"

// datasync flushes the file in the way the Go runtime knows for this system.
func datasync(f *os.File) error { return f.Sync() }

// allocate is not known for this system: the caller writes zeros.
func allocate(*os.File, int64, int64) error { return errNotSupported }
