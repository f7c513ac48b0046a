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

// errDamaged marks a file whose content is not what was written.
var errDamaged = errors.New("is damaged; restore it from a copy made after the last leadership")

const (
	lockSuffix = ".lock" // this package never removes it
	newSuffix  = ".new"  // the new content, written by the process that holds the lock
)

// The shortest and the longest pause between two attempts to lock.
const (
	lockPause    = time.Millisecond
	lockPauseMax = 50 * time.Millisecond
)

// lockRounds is how many times a lock file may be removed while a process waits for it.
const lockRounds = 100

// linksMax bounds the symbolic links that are followed to a file that does not exist yet.
const linksMax = 40

// target returns the path of a file with symbolic links resolved, even if the file does not
// exist yet. Otherwise a write would replace the link, and two processes that use different
// names for one file would lock two files. If the links cannot be resolved, it returns the
// path itself, and opening that fails.
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

// held is a held lock on a target.
type held struct {
	file *os.File
	path string
}

// Close releases the lock.
func (h *held) Close() error { return h.file.Close() }

// check returns an error if the lock file was removed or replaced, because others may then
// lock another file.
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

// lock takes the lock of a target; closing the result releases it.
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
	// Others may be able to write the directory: O_EXCL creates the file here and does not
	// follow a symbolic link.
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
			// Poll, because waiting for the lock in the kernel could not be interrupted.
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

// replace replaces the content of a file. After a crash at any point, either the old or the
// new file exists; once replace has returned nil, it is the new one. The path is a target,
// and the caller holds its lock, which check confirms.
func replace(path string, data []byte, check func() error) (err error) {
	_ = os.Remove(path + newSuffix) // left by a process that was killed; its mode may forbid writing
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
		err = check() // as late as possible
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
