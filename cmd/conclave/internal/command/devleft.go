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
	// devPrefix begins the names of directories for the data of devs without --dir.
	devPrefix = "conclave-dev-"
	// devLeftAge is how old such a directory must be to be taken for left behind: a
	// younger one may not be locked yet.
	devLeftAge = time.Minute
)

// removeLeft removes the directories of devs that were killed. A dev holds the lock of
// its directory, and its servers those of theirs.
func removeLeft() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), devPrefix+"[0-9]*"))
	for _, dir := range left {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < devLeftAge {
			continue
		}
		servers, _ := filepath.Glob(filepath.Join(dir, "*"))
		servers = slices.DeleteFunc(servers, func(name string) bool { // to open a pipe of somebody would wait
			info, err := os.Lstat(name)
			return err != nil || !info.IsDir()
		})
		if unlock := lockAll(append(servers, dir)); unlock != nil {
			_ = os.RemoveAll(dir) // that of another user stays
			unlock()
		}
	}
}

// lockAll locks directories, and returns what frees them again, nil if another process
// has the lock of one.
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
