//go:build unix

package admin

import (
	"os"
	"syscall"
)

// Descriptors returns how many file descriptors are open, if the system reports that, and how
// many may be.
func Descriptors() (open int, limit uint64) {
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		open = len(entries)
	}
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) == nil {
		limit = uint64(l.Cur)
	}
	return open, limit
}
