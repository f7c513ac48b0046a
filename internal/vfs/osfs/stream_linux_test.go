package osfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/conclave-project/conclave/internal/vfs"
)

// The write, or the Sync, that meets a full disk reports it, and the buffers of direct
// writes are aligned as the disk requires.
func TestStreamToAFullDevice(t *testing.T) {
	f, err := New().OpenReadWrite("/dev/full")
	must(t, err)
	s := &stream{file: f.(*file), buffer: aligned()}
	defer s.Close()
	if at := uintptr(unsafe.Pointer(unsafe.SliceData(s.buffer))); at%streamAlign != 0 || cap(s.buffer) != streamBytes {
		t.Errorf("a buffer of %d bytes at %#x", cap(s.buffer), at)
	}
	if n, err := s.Write(make([]byte, 100)); n != 100 || err != nil {
		t.Errorf("%d bytes, %v: they fit into the buffer", n, err)
	}
	if _, err := s.Write(make([]byte, streamBytes)); !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("write to a full device: %v", err)
	}
	if err := s.Sync(); !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("a sync after it: %v", err)
	}
	if n, err := s.Write([]byte("x")); n != 0 || !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("a write after it: %d bytes, %v", n, err)
	}
}

// If a file system opens a file for direct writes but then refuses one, the file is written like
// any other.
func TestStreamGoesOnWithoutDirectWrites(t *testing.T) {
	name := filepath.Join(t.TempDir(), "stream")
	f, err := New().open(name, os.O_WRONLY|os.O_CREATE|syscall.O_DIRECT)
	if errors.Is(err, syscall.EINVAL) {
		t.Logf("no direct writes in %s", name)
		return
	}
	must(t, err)
	_, err = f.WriteAt(make([]byte, 100), 0) // not aligned
	if !errors.Is(err, syscall.EINVAL) {
		t.Logf("a direct write of 100 bytes: %v", err)
	}
	b := make([]byte, streamBytes+2*streamAlign)
	b = b[streamAlign-int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))%streamAlign)+1:] // not aligned either
	s := &stream{file: f.(*file), buffer: b[:0]}
	want := bytes.Repeat([]byte("abc"), streamBytes)
	for at := 0; at < len(want); at += 3000 {
		_, err := s.Write(want[at:min(at+3000, len(want))])
		must(t, err)
	}
	must(t, s.Sync())
	must(t, s.Close())
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes are in the file of %d, %v", len(got), len(want), err)
	}
}
