package fence

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged marks a file whose bytes are not those that were written.
var errDamaged = errors.New("is damaged; restore it from a copy made after the last leadership")

const (
	lockSuffix = ".lock" // never removed by this package
	newSuffix  = ".new"  // what is being written, by the process that holds the lock
)

// Pauses between two tries to lock, the first and the longest.
const (
	lockPause    = time.Millisecond
	lockPauseMax = 50 * time.Millisecond
)

// lockRounds is how often a lock may be removed while it is waited for.
const lockRounds = 100

// linksMax bounds the symbolic links that lead to a file that is not there yet.
const linksMax = 40

// target returns where a file is, or is made: symbolic links followed. By the path itself
// a link would be replaced, and two processes that know one file by two names would lock
// two files. Where it cannot be found out it is the path, which fails when it is opened.
func target(path string) string {
	at := path
	for range linksMax {
		if found, err := filepath.EvalSymlinks(at); err == nil {
			return found
		}
		next, err := os.Readlink(at)
		if err != nil {
			break
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(at), next)
		}
		at = next
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil {
		return filepath.Join(dir, filepath.Base(at))
	}
	return path
}

// held is the lock of a target.
type held struct {
	file *os.File
	path string
}

// Close gives the lock up.
func (h *held) Close() error { return h.file.Close() }

// check returns an error if others may lock another file: somebody has removed this one.
func (h *held) check() error {
	mine, err := h.file.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(h.path); err == nil && os.SameFile(mine, there) {
		return nil
	}
	return fmt.Errorf("%s was removed or replaced while it was locked: it must stay", h.path)
}

// lock holds the lock of a target until the result is closed.
func lock(ctx context.Context, path string) (*held, error) {
	for round := 1; ; round++ {
		h, err := lockOnce(ctx, path)
		if err != nil {
			return nil, err
		}
		if err = h.check(); err == nil {
			return h, nil
		}
		_ = h.Close() // it was removed while this process waited
		if ctx.Err() != nil || round == lockRounds {
			return nil, err
		}
	}
}

func lockOnce(ctx context.Context, path string) (*held, error) {
	// Others may write the directory: what is made is made here, and not where a symbolic
	// link leads.
	file, err := os.OpenFile(path+lockSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o660)
	if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(path+lockSuffix, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, err
	}
	for pause := lockPause; ; pause = min(2*pause, lockPauseMax) {
		locked, err := tryLock(file)
		if locked {
			return &held{file, path + lockSuffix}, nil
		}
		if err == nil {
			// The kernel's waiting lock cannot be interrupted.
			select {
			case <-ctx.Done():
				err = fmt.Errorf("%s%s is held by another process: %w", path, lockSuffix, context.Cause(ctx))
			case <-time.After(pause):
				continue
			}
		}
		_ = file.Close()
		return nil, err
	}
}

// replace puts data in place of a file: after a crash at any point there is the
// old file or the new one, and when it returns nil the new one. The path is a target, and
// the caller holds its lock, as check tells.
func replace(path string, data []byte, check func() error) (err error) {
	_ = os.Remove(path + newSuffix) // of a process that was killed, with a mode that may forbid to write
	file, err := os.OpenFile(path+newSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o660)
	if err != nil {
		return err
	}
	if old, errOld := os.Stat(path); errOld == nil {
		keep(file, old)
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if errClose := file.Close(); err == nil {
		err = errClose
	}
	if err == nil {
		err = check() // as late as it goes
	}
	if err == nil {
		err = os.Rename(path+newSuffix, path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.Sync()
}

// readFile returns the bytes of a file, nil if there is none.
func readFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
