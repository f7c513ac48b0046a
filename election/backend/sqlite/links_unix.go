//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// links returns the number of a file's names.
func links(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 1
}
