//go:build !unix

package admin

// Descriptors returns zeros, because this system does not report them.
func Descriptors() (open int, limit uint64) { return 0, 0 }
