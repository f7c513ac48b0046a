package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// ReadFile reads a whole small file. A file longer than limit bytes is an error,
// so a wrong name cannot use up all memory.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("read %s: longer than %d bytes", name, limit)
	}
	return content, nil
}

// Leads fails if name no longer leads to what was opened under it, a File or a lock,
// because the file was removed or renamed or its disk was unmounted. On a file system that
// cannot tell, it succeeds.
func Leads(name string, opened any) error {
	if o, ok := opened.(interface{ Leads(name string) error }); ok {
		return o.Leads(name)
	}
	return nil
}

// ReplaceFile puts content under name such that after a crash either the old or
// the new content is there, whole: it writes temp in the same directory, syncs
// it, renames it over name and syncs the directory. On an error before the
// rename, name is untouched and temp may be left.
func ReplaceFile(fsys FS, name, temp string, content []byte) error {
	return replace(fsys, fsys.Create, name, temp, content)
}

// ReplaceFileLike is ReplaceFile, but the new file gets the permissions of the file like,
// which may be name itself, if the file system has permissions.
func ReplaceFileLike(fsys FS, name, temp, like string, content []byte) error {
	create := fsys.Create
	if p, ok := fsys.(Permissions); ok {
		create = func(temp string) (File, error) { return p.CreateLike(temp, like) }
	}
	return replace(fsys, create, name, temp, content)
}

// Permissions is an FS whose files have permissions.
type Permissions interface {
	// CreateLike makes an empty file, or empties an existing one, and gives it the
	// permissions of the file like. If like does not exist, the permissions are those
	// of Create.
	CreateLike(name, like string) (File, error)
}

func replace(fsys FS, create func(string) (File, error), name, temp string, content []byte) error {
	f, err := create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// EnsureDir makes a directory with its parents and makes each name durable before it
// puts anything below it. So if the process is killed meanwhile, at most the name of an
// empty directory is not durable.
func EnsureDir(fsys FS, dir string) error {
	found, err := Exists(fsys, dir)
	if err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if found {
		names, err := fsys.List(dir)
		if errors.Is(err, fs.ErrPermission) {
			return nil // a directory that this user may not read was made by others
		}
		if err != nil || len(names) > 0 {
			return err
		}
	} else {
		if err := EnsureDir(fsys, parent); err != nil {
			return err
		}
		if err := fsys.MkdirAll(dir); err != nil {
			return err
		}
	}
	if err := fsys.SyncDir(parent); err != nil && !(found && errors.Is(err, fs.ErrPermission)) { // as above
		return err
	}
	return nil
}

// Exists reports whether name exists. An error means that this is unknown.
func Exists(fsys FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
