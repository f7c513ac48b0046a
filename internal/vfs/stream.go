package vfs

import "io"

// Stream is a long file that is written once, in order, while others of the same disk are
// synced: that must not wait for it. Close it after Sync, or give it up by Close alone.
type Stream interface {
	io.WriteCloser

	// Sync makes all that was written durable (vfs-V1).
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

// Portions returns a file that is made durable portion by portion while it is written. A sync of
// all of it at the end would hold up those of others, on the same disk, for as long.
func Portions(file File) Stream { return &portions{File: file} }

type portions struct {
	File
	unsynced int
}

// PortionBytes is how many bytes of a portion may wait for a sync.
const PortionBytes = 4 << 20

func (p *portions) Write(b []byte) (int, error) {
	n, err := p.File.Write(b)
	if p.unsynced += n; err == nil && p.unsynced >= PortionBytes {
		p.unsynced = 0
		err = p.File.Sync()
	}
	return n, err
}

// Prefetcher is a File that can be told what will be read of it. It returns at once, and where
// it cannot do anything it does nothing.
type Prefetcher interface {
	Prefetch(offset, bytes int64)
}

// Ahead returns a reader of a file that was just opened, for one who takes all of it: what comes
// next is on its way from the disk while what came before is looked at.
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
