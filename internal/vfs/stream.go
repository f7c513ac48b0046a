package vfs

import "io"

// Stream is a long file that is written once, in order. Writing it must not delay the
// syncs of other files on the same disk. Close it after Sync, or abandon it by Close
// alone.
type Stream interface {
	io.WriteCloser

	// Sync makes everything written durable (vfs-V1).
	Sync() error
}

// Streams is an FS that has a better way to write such files than Portions.
type Streams interface {
	// CreateStream makes an empty file, or empties an existing one.
	CreateStream(name string) (Stream, error)
}

// CreateStream makes an empty file, or empties an existing one, to be written once.
func CreateStream(fsys FS, name string) (Stream, error) {
	if s, ok := fsys.(Streams); ok {
		return s.CreateStream(name)
	}
	f, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	return Portions(f), nil
}

// Portions returns a file that is synced portion by portion while it is written. One sync of the
// whole file at the end would delay the syncs of other files on the same disk for its whole
// duration.
func Portions(file File) Stream { return &portions{File: file} }

type portions struct {
	File
	unsynced int
}

// PortionBytes is how many bytes may wait for a sync.
const PortionBytes = 4 << 20

func (p *portions) Write(b []byte) (int, error) {
	n, err := p.File.Write(b)
	if p.unsynced += n; err == nil && p.unsynced >= PortionBytes {
		p.unsynced = 0
		err = p.File.Sync()
	}
	return n, err
}

// Prefetcher is a File that takes hints about what will be read next. Prefetch returns at
// once, and does nothing where the system has no such hints.
type Prefetcher interface {
	Prefetch(offset, bytes int64)
}

// Ahead returns a reader for a file that was just opened and will be read to its end. The disk
// already reads the next part while the caller processes the previous one.
func Ahead(f File) io.Reader {
	if p, ok := f.(Prefetcher); ok {
		return &ahead{file: f, disk: p}
	}
	return f
}

type ahead struct {
	file        io.Reader
	disk        Prefetcher
	read, asked int64
}

// How far ahead is read, and how much at a time.
const (
	aheadBytes = 8 << 20
	aheadStep  = 1 << 20
)

func (a *ahead) Read(p []byte) (int, error) {
	for a.asked < a.read+aheadBytes {
		a.disk.Prefetch(a.asked, aheadStep)
		a.asked += aheadStep
	}
	n, err := a.file.Read(p)
	a.read += int64(n)
	return n, err
}
