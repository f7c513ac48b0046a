package osfs

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"github.com/conclave-project/conclave/internal/vfs"
)

// stream is a file that bypasses the page cache where the file system supports it (O_DIRECT):
// nothing is copied into the cache or evicted from it, and the log's syncs do not wait behind
// many dirty pages.
type stream struct {
	file   *file
	buffer []byte     // not written yet, in memory aligned for direct writes
	cached vfs.Stream // nil while the file is written directly
	err    error      // of a failed write: its bytes are lost, so nothing after it counts as durable
}

const (
	streamBytes = 256 << 10 // of one direct write; a sync of the log waits for at most one
	streamAlign = 4 << 10   // in memory and in the file, enough for any disk
)

// CreateStream implements vfs.Streams.
func (fs FS) CreateStream(name string) (vfs.Stream, error) {
	f, err := fs.open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_DIRECT)
	if errors.Is(err, syscall.EINVAL) {
		if f, err = fs.Create(name); err == nil {
			return vfs.Portions(f), nil
		}
	}
	if err != nil {
		return nil, err
	}
	return &stream{file: f.(*file), buffer: aligned()}, nil
}

// aligned returns an empty buffer for direct writes.
func aligned() []byte {
	b := make([]byte, streamBytes+streamAlign)
	skip := streamAlign - int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))%streamAlign)
	return b[skip : skip : skip+streamBytes]
}

// Write implements vfs.Stream.
func (s *stream) Write(p []byte) (written int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	for written < len(p) && s.cached == nil {
		n := copy(s.buffer[len(s.buffer):streamBytes], p[written:])
		s.buffer = s.buffer[:len(s.buffer)+n]
		written += n
		if len(s.buffer) == streamBytes {
			if err := s.flush(); err != nil {
				return written, err
			}
		}
	}
	if written == len(p) {
		return written, nil
	}
	n, err := s.cached.Write(p[written:])
	s.err = err
	return written + n, err
}

// flush writes the buffer, which is full. If the file system or the disk turns out not to
// support direct writes, the rest is written like any other file.
func (s *stream) flush() error {
	n, err := s.file.Write(s.buffer)
	if errors.Is(err, syscall.EINVAL) {
		s.buffer = s.buffer[n:]
		return s.finish()
	}
	s.buffer, s.err = s.buffer[:0], err
	return err
}

// finish ends the direct writes: the end of the file usually has no length that a direct write can
// have.
func (s *stream) finish() error {
	s.err = control(s.file.File, "fcntl", func(fd int) error {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
		if errno == 0 {
			_, _, errno = syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFL, flags&^uintptr(syscall.O_DIRECT))
		}
		if errno != 0 {
			return errno
		}
		return nil
	})
	if s.err != nil {
		return s.err
	}
	s.cached = vfs.Portions(s.file)
	_, s.err = s.cached.Write(s.buffer)
	s.buffer = nil
	return s.err
}

// Sync implements vfs.Stream.
func (s *stream) Sync() error {
	if s.err == nil && s.cached == nil {
		_ = s.finish()
	}
	if s.err != nil {
		return s.err
	}
	return s.cached.Sync()
}

// Close implements vfs.Stream.
func (s *stream) Close() error { return s.file.Close() }
