//go:build linux || darwin

package admin

import "syscall"

// Space returns how many bytes the disk of a directory has, and how many of them this process
// may still use; false if that is not known.
func Space(dir string) (bytes, free float64, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, 0, false
	}
	unit := float64(s.Bsize)
	return float64(s.Blocks) * unit, float64(s.Bavail) * unit, true
}
