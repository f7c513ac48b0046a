//go:build !linux

package osfs

import "os"

// datasync flushes the file as the Go runtime does on this system.
func datasync(f *os.File) error { return f.Sync() }

// allocate is not supported on this system: the caller writes zeros.
func allocate(*os.File, int64, int64) error { return errNotSupported }
