package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/conclave-project/conclave/internal/vfs"
)

// Dir is a Place in a directory.
type Dir struct {
	fs   vfs.FS
	dir  string
	lock io.Closer
}

// OpenDir opens a directory only for reading.
func OpenDir(fsys vfs.FS, dir string) *Dir { return &Dir{fs: fsys, dir: dir} }

// LockDir opens a directory for writing, and creates it durably if it is missing. It returns
// vfs.ErrLocked while another process has it open for writing. The caller must Close it.
func LockDir(fsys vfs.FS, dir string) (*Dir, error) {
	if err := vfs.EnsureDir(fsys, dir); err != nil {
		return nil, fmt.Errorf("open backup: %w", err)
	}
	lock, err := fsys.Lock(dir)
	if err != nil {
		return nil, fmt.Errorf("open backup %s: %w", dir, err)
	}
	d := &Dir{fsys, dir, lock}
	if err := d.clean(); err != nil {
		return nil, errors.Join(fmt.Errorf("open backup: %w", err), d.Close())
	}
	return d, nil
}

// clean removes what a take was writing when it was killed: a later take does not use its name
// again.
func (d *Dir) clean() error {
	names, err := d.fs.List(d.dir)
	for _, name := range names {
		if piece, is := strings.CutPrefix(name, tempPrefix); is && err == nil {
			if _, is = parsePiece(strings.TrimSuffix(piece, SealedSuffix)); is {
				err = d.fs.Remove(filepath.Join(d.dir, name))
			}
		}
	}
	return err
}

// Close unlocks the directory.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}

// List implements Place.
func (d *Dir) List(context.Context) ([]string, error) { return d.fs.List(d.dir) }

const tempPrefix = "tmp."

// SealedSuffix is the ending of pieces that another kind of place has encrypted before it
// stores them.
const SealedSuffix = ".age"

// Put implements Place.
func (d *Dir) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	temp := filepath.Join(d.dir, tempPrefix+name)
	file, err := d.fs.Create(temp)
	if err != nil {
		return err
	}
	err = write(&interruptible{ctx, file})
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = d.fs.Rename(temp, filepath.Join(d.dir, name))
	}
	if err == nil {
		return d.fs.SyncDir(d.dir)
	}
	return errors.Join(err, d.fs.Remove(temp))
}

// interruptible makes a long copy end with its context.
type interruptible struct {
	ctx context.Context
	w   io.Writer
}

func (i *interruptible) Write(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, context.Cause(i.ctx)
	}
	return i.w.Write(p)
}

// Open implements Place.
func (d *Dir) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return d.fs.Open(filepath.Join(d.dir, name))
}

// Remove implements Place.
func (d *Dir) Remove(_ context.Context, name string) error {
	if err := d.fs.Remove(filepath.Join(d.dir, name)); err != nil {
		return err
	}
	return d.fs.SyncDir(d.dir)
}
