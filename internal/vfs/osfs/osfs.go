// Package osfs implements package vfs with the real file system.
//
// Errors are the operating system's; a full disk is marked as vfs.ErrNoSpace.
// vfs-V1 to vfs-V4 of package vfs hold as far as the kernel and the disk keep their
// promises. It holds no state of its own, except descriptors for Keeping, and starts no goroutine.
package osfs

import (
	"errors"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/conclave-project/conclave/internal/vfs"
)

// FS is the file system of this machine. It may be used from many goroutines.
type FS struct{ kept *kept }

// New returns the file system of this machine.
func New() FS { return FS{} }

// Keeping returns a file system that keeps a number of descriptors open. If connections have
// used up all others, it opens its files with these.
func (FS) Keeping(descriptors int) FS {
	fs := FS{&kept{most: descriptors}}
	fs.kept.fill()
	return fs
}

// Modes of new files and directories, before the umask. Other users of the
// machine must not read the data of a coordination service.
const (
	fileMode = 0o640
	dirMode  = 0o750
)

// Open implements vfs.FS.
func (fs FS) Open(name string) (vfs.File, error) { return fs.open(name, os.O_RDONLY) }

// OpenReadWrite implements vfs.FS.
func (fs FS) OpenReadWrite(name string) (vfs.File, error) { return fs.open(name, os.O_RDWR) }

// Create implements vfs.FS.
func (fs FS) Create(name string) (vfs.File, error) {
	return fs.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// OpenAppend implements vfs.FS.
func (fs FS) OpenAppend(name string) (vfs.File, error) {
	return fs.open(name, os.O_RDWR|os.O_CREATE|os.O_APPEND)
}

func (fs FS) open(name string, flag int) (vfs.File, error) {
	f, err := fs.kept.open(name, flag, fileMode)
	if err != nil {
		return nil, mark(err)
	}
	return &file{f, fs.kept}, nil
}

// CreateLike implements vfs.Permissions. The file gets the permissions before any
// content.
func (fs FS) CreateLike(name, like string) (vfs.File, error) {
	mode := os.FileMode(fileMode)
	info, err := os.Stat(like)
	switch {
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, os.ErrNotExist):
		return nil, mark(err)
	}
	f, err := fs.kept.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode&fileMode)
	if err != nil {
		return nil, mark(err)
	}
	if info != nil {
		if err := f.Chmod(mode); err != nil {
			f.Close()
			return nil, mark(err)
		}
	}
	return &file{f, fs.kept}, nil
}

// Rename implements vfs.FS.
func (FS) Rename(source, target string) error { return mark(os.Rename(source, target)) }

// Remove implements vfs.FS.
func (FS) Remove(name string) error { return mark(os.Remove(name)) }

// MkdirAll implements vfs.FS.
func (FS) MkdirAll(dir string) error { return mark(os.MkdirAll(dir, dirMode)) }

// List implements vfs.FS.
func (fs FS) List(dir string) ([]string, error) {
	d, err := fs.open(dir, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.(*file).Readdirnames(-1)
	slices.Sort(names)
	return names, mark(err)
}

// Stat implements vfs.FS.
func (FS) Stat(name string) (vfs.Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return vfs.Info{}, mark(err)
	}
	return vfs.Info{Size: info.Size(), Dir: info.IsDir()}, nil
}

// SyncDir implements vfs.FS.
func (fs FS) SyncDir(dir string) error {
	d, err := fs.open(dir, os.O_RDONLY)
	if err != nil {
		return err
	}
	err = syncDir(d.(*file).File)
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return mark(err)
}

// Lock implements vfs.FS.
func (fs FS) Lock(dir string) (io.Closer, error) { return fs.lock(dir) }

// file is an open file of the operating system.
type file struct {
	*os.File
	kept *kept
}

func (f *file) Close() error {
	err := f.File.Close()
	f.kept.fill() // before a connection takes the descriptor
	return err
}

func (f *file) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, mark(err)
}

func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	n, err := f.File.WriteAt(p, offset)
	return n, mark(err)
}

func (f *file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, mark(err)
	}
	return info.Size(), nil
}

var errOther = errors.New("it is not what it was, but something else")

// Leads fails if name no longer leads to this file (vfs.Leads).
func (f *file) Leads(name string) error {
	own, err := f.Stat()
	if err != nil {
		return mark(err)
	}
	named, err := os.Stat(name)
	if err == nil && !os.SameFile(own, named) {
		err = &os.PathError{Op: "stat", Path: name, Err: errOther}
	}
	return mark(err)
}

func (f *file) Sync() error { return mark(datasync(f.File)) }

func (f *file) Truncate(size int64) error { return mark(f.File.Truncate(size)) }

func (f *file) Allocate(size int64) error {
	old, err := f.Size()
	if err != nil {
		return err
	}
	if size <= old {
		return nil
	}
	err = allocate(f.File, old, size)
	if errors.Is(err, errNotSupported) {
		err = f.fill(old, size)
	}
	if err != nil {
		// Release the space that was allocated in part: the disk is full.
		_ = f.File.Truncate(old)
	}
	return mark(err)
}

// fill writes zeros where the file system cannot reserve space by itself.
func (f *file) fill(old, size int64) error {
	zeros := make([]byte, min(size-old, 1<<20))
	for old < size {
		n, err := f.WriteAt(zeros[:min(size-old, int64(len(zeros)))], old)
		if err != nil {
			return err
		}
		old += int64(n)
	}
	return nil
}

var errNotSupported = errors.New("the file system cannot reserve space")

// noSpace is an operating system's error that means a full disk.
type noSpace struct{ error }

func (e noSpace) Unwrap() error        { return e.error }
func (e noSpace) Is(target error) bool { return target == vfs.ErrNoSpace }

// mark makes the error of a full disk a vfs.ErrNoSpace and leaves other errors as they are.
func mark(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return noSpace{err}
	}
	return err
}
