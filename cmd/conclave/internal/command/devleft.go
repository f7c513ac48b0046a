package command

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

const (
	// devPrefix is the beginning of the names of data directories of devs without --dir.
	devPrefix = "conclave-dev-"
	// devLeftAge is the age from which such a directory may count as abandoned: a younger
	// one may not be locked yet.
	devLeftAge = time.Minute
)

// removeLeft removes the directories of devs that were killed. A running dev holds the lock
// of its directory, and its servers hold those of theirs.
func removeLeft() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), devPrefix+"[0-9]*"))
	for _, dir := range left {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < devLeftAge {
			continue
		}
		servers, _ := filepath.Glob(filepath.Join(dir, "*"))
		servers = slices.DeleteFunc(servers, func(name string) bool { // opening somebody's pipe would block
			info, err := os.Lstat(name)
			return err != nil || !info.IsDir()
		})
		if unlock := lockAll(append(servers, dir)); unlock != nil {
			_ = os.RemoveAll(dir) // one of another user stays
			unlock()
		}
	}
}

// lockAll locks directories, and returns a function that unlocks them; nil if another
// process holds one of the locks.
func lockAll(dirs []string) (unlock func()) {
	var locks []io.Closer
	unlock = func() {
		for _, lock := range locks {
			_ = lock.Close()
		}
	}
	for _, dir := range dirs {
		lock, err := osfs.New().Lock(dir)
		if err != nil {
			unlock()
			return nil
		}
		locks = append(locks, lock)
	}
	return unlock
}
