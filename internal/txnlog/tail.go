package txnlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/conclave-project/conclave/internal/adler"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Tail reads the records that a running server appends, as they come. It never judges what it
// finds: what is not a whole record has not been written yet. The server may still truncate
// what it has appended (see Truncate), so the caller says up to where the log is committed. One
// goroutine uses it.
type Tail struct {
	fs       vfs.FS
	dir      string
	bytesMax int // limit of a payload

	last    zk.Zxid // zxid of the last record that was read
	segment string  // the current segment; "" before the first, and to look for the place again
	offset  int64   // of the next record in the segment

	window []byte // content of the file from start on, during one call of read
	start  int64
	buffer []byte // backs window
}

// tailBytes is how many bytes are read at a time.
const tailBytes = 64 << 10

// NewTail returns a Tail that begins with the record after after.
func NewTail(fsys vfs.FS, dir string, after zk.Zxid, payloadBytesMax int) *Tail {
	return &Tail{fs: fsys, dir: dir, bytesMax: payloadBytesMax, last: after}
}

// Read visits the records that have been appended since the last call, up to until. A payload
// is valid until visit returns. If records were purged before they were read, it continues with
// the next ones.
func (t *Tail) Read(until zk.Zxid, visit func(zxid zk.Zxid, payload []byte) error) error {
	if until < t.last { // the history was truncated
		t.segment, t.last = "", until
	}
	if until == t.last {
		return nil
	}
	segments, err := Segments(t.fs, t.dir)
	if err != nil {
		return err
	}
	segments = covering(segments, t.last)
	if len(segments) > 0 && !slices.ContainsFunc(segments, func(s Segment) bool { return s.Name == t.segment }) {
		t.open(segments[0]) // the first call, or the segment was purged
	}
	for i, s := range segments {
		if s.Name != t.segment {
			continue
		}
		err := t.read(until, visit)
		if errors.Is(err, fs.ErrNotExist) {
			t.segment = ""
			return nil
		}
		// A segment with a successor does not grow any more: its end has been reached.
		if err != nil || i+1 == len(segments) || t.last >= until {
			return err
		}
		t.open(segments[i+1])
	}
	return nil
}

func (t *Tail) open(s Segment) { t.segment, t.offset = s.Name, segmentHeadBytes }

// read visits the records of the segment from the offset on.
func (t *Tail) read(until zk.Zxid, visit func(zxid zk.Zxid, payload []byte) error) error {
	file, err := t.fs.Open(filepath.Join(t.dir, t.segment))
	if err != nil {
		return fmt.Errorf("follow transaction log: %w", err)
	}
	defer file.Close()
	t.window, t.start = nil, t.offset
	for t.last < until {
		payload, err := t.record(file)
		if err != nil || payload == nil {
			return err
		}
		zxid := payloadZxid(payload)
		if zxid > until {
			return nil
		}
		t.offset += int64(len(payload) + recordFrameBytes)
		if zxid <= t.last {
			continue
		}
		t.last = zxid
		if err := visit(zxid, payload); err != nil {
			return err
		}
	}
	return nil
}

// record returns the payload of the record at the offset, nil if there is no whole one.
func (t *Tail) record(file vfs.File) ([]byte, error) {
	head, err := t.at(file, recordHeadBytes)
	if head == nil {
		return nil, err
	}
	checksum, length := binary.BigEndian.Uint64(head), int32(binary.BigEndian.Uint32(head[8:]))
	if length < payloadBytesMin || int(length) > t.bytesMax {
		return nil, nil
	}
	whole, err := t.at(file, int(length)+recordFrameBytes)
	if whole == nil {
		return nil, err
	}
	payload := whole[recordHeadBytes : len(whole)-1]
	if whole[len(whole)-1] != recordTrailer || uint64(adler.Checksum(payload)) != checksum {
		return nil, nil
	}
	return payload, nil
}

// at returns n bytes at the offset, nil if the file is shorter.
func (t *Tail) at(file vfs.File, n int) ([]byte, error) {
	if from := t.offset - t.start; from+int64(n) <= int64(len(t.window)) {
		return t.window[from:][:n], nil
	}
	if cap(t.buffer) < n {
		t.buffer = make([]byte, max(n, tailBytes))
	}
	count, err := file.ReadAt(t.buffer[:cap(t.buffer)], t.offset)
	t.window, t.start = t.buffer[:count], t.offset
	if count >= n {
		return t.window[:n], nil
	}
	if err == io.EOF {
		err = nil
	}
	return nil, err
}
