package vfs

import (
	"io"
	"sync"
)

// Kind names an operation; a trace line begins with it.
type Kind string

// The kinds of operations that a Faulty reports. Reading operations are open,
// read, list and stat; all others change the disk.
const (
	KindOpen     Kind = "open"
	KindCreate   Kind = "create"
	KindRead     Kind = "read"
	KindWrite    Kind = "write"
	KindSync     Kind = "sync"
	KindTruncate Kind = "truncate"
	KindAllocate Kind = "allocate"
	KindClose    Kind = "close"
	KindRename   Kind = "rename"
	KindRemove   Kind = "remove"
	KindList     Kind = "list"
	KindStat     Kind = "stat"
	KindMkdir    Kind = "mkdir"
	KindSyncDir  Kind = "syncdir"
	KindLock     Kind = "lock"
)

// Op is one operation on its way to the disk.
type Op struct {
	Kind   Kind
	Name   string
	Target string // of a rename
	Bytes  int64  // length of a read or write; size of a truncate or allocate
}

// Changes reports whether the operation may change what is on the disk.
func (o Op) Changes() bool {
	switch o.Kind {
	case KindOpen, KindRead, KindClose, KindList, KindStat, KindLock:
		return false
	}
	return true
}

// Faulty is a file system that calls Before ahead of each operation. If Before
// returns an error, the operation fails with it and does nothing. A failed sync
// on a Mem loses what was written (vfs-V3). Before is called on the goroutine
// of the operation, so it must be safe for concurrent use if the operations are
// concurrent.
type Faulty struct {
	Disk   FS
	Before func(Op) error

	// names of open files follow renames, so operations are reported under a
	// file's current name.
	names struct {
		sync.Mutex
		open map[*faultyFile]string
	}
}

func (f *Faulty) ask(op Op) error {
	if f.Before == nil {
		return nil
	}
	if err := f.Before(op); err != nil {
		return pathError(string(op.Kind), op.Name, err)
	}
	return nil
}

func (f *Faulty) file(kind Kind, name string, open func(string) (File, error)) (File, error) {
	if err := f.ask(Op{Kind: kind, Name: name}); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	wrapped := &faultyFile{File: file, owner: f}
	f.names.Lock()
	defer f.names.Unlock()
	if f.names.open == nil {
		f.names.open = map[*faultyFile]string{}
	}
	f.names.open[wrapped] = name
	return wrapped, nil
}

// Open implements FS.
func (f *Faulty) Open(name string) (File, error) { return f.file(KindOpen, name, f.Disk.Open) }

// OpenReadWrite implements FS.
func (f *Faulty) OpenReadWrite(name string) (File, error) {
	return f.file(KindOpen, name, f.Disk.OpenReadWrite)
}

// Create implements FS.
func (f *Faulty) Create(name string) (File, error) { return f.file(KindCreate, name, f.Disk.Create) }

// OpenAppend implements FS. It is reported as a create, because it may create the file.
func (f *Faulty) OpenAppend(name string) (File, error) {
	return f.file(KindCreate, name, f.Disk.OpenAppend)
}

// Rename implements FS.
func (f *Faulty) Rename(source, target string) error {
	if err := f.ask(Op{Kind: KindRename, Name: source, Target: target}); err != nil {
		return err
	}
	if err := f.Disk.Rename(source, target); err != nil {
		return err
	}
	f.names.Lock()
	defer f.names.Unlock()
	for file, name := range f.names.open {
		if name == source {
			f.names.open[file] = target
		}
	}
	return nil
}

// Remove implements FS.
func (f *Faulty) Remove(name string) error {
	if err := f.ask(Op{Kind: KindRemove, Name: name}); err != nil {
		return err
	}
	return f.Disk.Remove(name)
}

// List implements FS.
func (f *Faulty) List(dir string) ([]string, error) {
	if err := f.ask(Op{Kind: KindList, Name: dir}); err != nil {
		return nil, err
	}
	return f.Disk.List(dir)
}

// Stat implements FS.
func (f *Faulty) Stat(name string) (Info, error) {
	if err := f.ask(Op{Kind: KindStat, Name: name}); err != nil {
		return Info{}, err
	}
	return f.Disk.Stat(name)
}

// MkdirAll implements FS.
func (f *Faulty) MkdirAll(dir string) error {
	if err := f.ask(Op{Kind: KindMkdir, Name: dir}); err != nil {
		return err
	}
	return f.Disk.MkdirAll(dir)
}

// SyncDir implements FS.
func (f *Faulty) SyncDir(dir string) error {
	if err := f.ask(Op{Kind: KindSyncDir, Name: dir}); err != nil {
		return err
	}
	return f.Disk.SyncDir(dir)
}

// Lock implements FS.
func (f *Faulty) Lock(dir string) (io.Closer, error) {
	if err := f.ask(Op{Kind: KindLock, Name: dir}); err != nil {
		return nil, err
	}
	return f.Disk.Lock(dir)
}

// faultyFile is an open file whose operations call Before first.
type faultyFile struct {
	File
	owner *Faulty
}

func (f *faultyFile) ask(kind Kind, bytes int64) error {
	f.owner.names.Lock()
	name := f.owner.names.open[f]
	f.owner.names.Unlock()
	return f.owner.ask(Op{Kind: kind, Name: name, Bytes: bytes})
}

func (f *faultyFile) Read(p []byte) (int, error) {
	if err := f.ask(KindRead, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *faultyFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.ask(KindRead, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, offset)
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if err := f.ask(KindWrite, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *faultyFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.ask(KindWrite, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, offset)
}

func (f *faultyFile) Sync() error {
	if err := f.ask(KindSync, 0); err != nil {
		if inner, ok := f.File.(interface{ syncFailed() }); ok {
			inner.syncFailed()
		}
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.ask(KindTruncate, size); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Allocate(size int64) error {
	if err := f.ask(KindAllocate, size); err != nil {
		return err
	}
	return f.File.Allocate(size)
}

func (f *faultyFile) Close() error {
	// A descriptor is released even when close reports an error.
	err := f.ask(KindClose, 0)
	f.owner.names.Lock()
	delete(f.owner.names.open, f)
	f.owner.names.Unlock()
	if closeErr := f.File.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (f *faultyFile) syncFailed() {
	if inner, ok := f.File.(interface{ syncFailed() }); ok {
		inner.syncFailed()
	}
}
