package fence

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"

	"github.com/conclave-project/conclave/election"
)

// File is a file that several processes change, one leader at a time: it has a
// version, which grows with every write, and the token of its writer. Both
// stand in a line before the data, so that they cannot part from it:
//
//	conclave file 1 version=12 token=42 bytes=123 crc32c=1a2b3c4d
//
// A write replaces the file: after a crash there is the old one or the new one,
// durable when the write has returned. Writers exclude each other by a lock on
// the file PATH.lock, which stays, where PATH is what symbolic links lead to;
// readers need none. A writer that is frozen
// within a write, which lasts as long as two syncs, keeps the others waiting
// until it goes on or is killed. The directory is of a local disk: locks of
// network file systems may not hold. A File may be used by several goroutines.
type File struct{ path string }

// Version numbers the writes of a File, from 1. Zero is a file that is not
// there.
type Version uint64

// Content is what a File holds.
type Content struct {
	Data    []byte
	Version Version
	Token   election.Token // of its writer
}

const fileHeader = "conclave file 1 version=%d token=%d bytes=%d crc32c=%08x\n"

// fileHeaderBytesMax is more than any header has.
const fileHeaderBytesMax = 160

// NewFile returns the file at path. It does no I/O.
func NewFile(path string) *File { return &File{path} }

// Read returns what the file holds, the zero Content if it is not there.
func (f *File) Read() (Content, error) { return f.read(f.path) }

func (f *File) read(path string) (Content, error) {
	text, err := readFile(path)
	if err != nil || text == nil {
		return Content{}, err
	}
	content, err := decodeFile(text)
	if err != nil {
		return Content{}, fmt.Errorf("fence: %s %w", f.path, err)
	}
	return content, nil
}

// Write replaces the data if the file has still the given version, zero being
// no file. ErrChanged says that it has not, ErrStale that a later leader has
// written; after both nothing was written.
func (f *File) Write(ctx context.Context, data []byte, version Version, token election.Token) (Version, error) {
	return f.change(ctx, token, func(old Content) ([]byte, error) {
		if old.Version != version {
			return nil, fmt.Errorf("fence: %s: version %d, expected %d: %w", f.path, old.Version, version, ErrChanged)
		}
		return data, nil
	})
}

// Update replaces the data by what change makes of it; change is called with
// the lock held and is quick. It returns the new version. ErrStale says that a
// later leader has written; an error of change comes out as it is. After both
// nothing was written, nor after the cause of ctx, which has ended before the write.
// After another error nobody knows.
func (f *File) Update(ctx context.Context, token election.Token, change func(old []byte) ([]byte, error)) (Version, error) {
	return f.change(ctx, token, func(old Content) ([]byte, error) { return change(old.Data) })
}

func (f *File) change(ctx context.Context, token election.Token, change func(Content) ([]byte, error)) (Version, error) {
	path := target(f.path)
	locked, err := lock(ctx, path)
	if err != nil {
		return 0, fmt.Errorf("fence: lock: %w", err)
	}
	defer func() { _ = locked.Close() }()
	old, err := f.read(path)
	if err != nil {
		return 0, err
	}
	if err := Check(f.path, old.Token, token); err != nil {
		return 0, err
	}
	data, err := change(old)
	if err != nil {
		return 0, err
	}
	if ctx.Err() != nil { // as late as it goes: a leader may have been frozen
		return 0, fmt.Errorf("fence: %s is as it was: %w", f.path, context.Cause(ctx))
	}
	next := Content{data, old.Version + 1, token}
	if err := replace(path, encodeFile(next), locked.check); err != nil {
		return 0, fmt.Errorf("fence: write version %d: %w", next.Version, err)
	}
	return next.Version, nil
}

func encodeFile(c Content) []byte {
	header := fmt.Sprintf(fileHeader, c.Version, c.Token, len(c.Data), checksum(c))
	return append([]byte(header), c.Data...)
}

// checksum covers the numbers of the header, too.
func checksum(c Content) uint32 {
	numbers := fmt.Appendf(nil, "%d %d ", c.Version, c.Token)
	return crc32.Update(crc32.Checksum(numbers, castagnoli), castagnoli, c.Data)
}

func decodeFile(text []byte) (Content, error) {
	at := bytes.IndexByte(text[:min(len(text), fileHeaderBytesMax)], '\n') + 1
	c := Content{Data: text[at:]}
	var length int
	var sum uint32
	_, err := fmt.Sscanf(string(text[:at]), fileHeader, &c.Version, &c.Token, &length, &sum)
	if err != nil || length != len(c.Data) || sum != checksum(c) {
		return Content{}, fmt.Errorf("(%d bytes) %w", len(text), errDamaged)
	}
	return c, nil
}
