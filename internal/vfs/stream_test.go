package vfs

import (
	"io"
	"testing"
)

// told is a file that records which ranges it was told to prefetch, and which reads were not
// prefetched.
type told struct {
	File
	size, read, ready int64
	late              bool
}

func (f *told) Prefetch(offset, bytes int64) {
	f.late = f.late || offset != f.ready
	f.ready = offset + bytes
}

func (f *told) Read(p []byte) (int, error) {
	f.late = f.late || f.ready < f.read+aheadBytes
	n := min(int64(len(p)), f.size-f.read)
	if f.read += n; n == 0 {
		return 0, io.EOF
	}
	return int(n), nil
}

// Before each read the next megabytes are prefetched, each once and in order.
func TestReadersGoAhead(t *testing.T) {
	f := &told{size: 3*aheadBytes + 5}
	n, err := io.Copy(io.Discard, Ahead(f))
	if err != nil || n != f.size || f.late || f.ready >= f.size+aheadBytes+aheadStep {
		t.Errorf("%d bytes of %d, %v; asked for %d, late %v", n, f.size, err, f.ready, f.late)
	}
}
