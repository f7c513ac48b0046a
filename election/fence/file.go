package fence

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"

	"github.com/conclave-project/conclave/election"
)

// File is a file that several processes change, one leader at a time. It has a version, which
// grows with every write, and the token of its writer. Both are in a line before the data, so
// they cannot be separated from it:
//
//	conclave file 1 version=12 token=42 bytes=123 crc32c=1a2b3c4d
//
// A write replaces the file: after a crash either the old or the new one is there, and the new
// one is durable once the write has returned. Writers exclude each other by a lock on the file
// PATH.lock, which is never removed; PATH is the target of any symbolic links. Readers need no
// lock. A writer that is frozen during a write, which takes as long as two syncs, keeps the
// others waiting until it resumes or is killed. The directory must be on a local disk: locks of
// network file systems may not hold. A File may be used by several goroutines.
type File struct{ path string }

// Version numbers the writes of a File, from 1. Zero means that the file does not exist.
type Version uint64

// Content is what a File holds.
type Content struct {
	Data    []byte
	Version Version
	Token   election.Token // of its writer
}

const fileHeader = "conclave file 1 version=%d token=%d bytes=%d crc32c=%08x\n"

// fileHeaderBytesMax is more bytes than any header has.
const fileHeaderBytesMax = 160

// NewFile returns the file at path. It does no I/O.
func NewFile(path string) *File { return &File{path} }

// Read returns what the file holds, or the zero Content if it does not exist.
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

// Write replaces the data if the file still has the given version, zero meaning no file.
// ErrChanged means that it has another version, ErrStale that a later leader has written; in both
// cases nothing was written.
func (f *File) Write(ctx context.Context, data []byte, version Version, token election.Token) (Version, error) {
	return f.change(ctx, token, func(old Content) ([]byte, error) {
		if old.Version != version {
			return nil, fmt.Errorf("fence: %s: version %d, expected %d: %w", f.path, old.Version, version, ErrChanged)
		}
		return data, nil
	})
}

// Update replaces the data by what change returns for it, and returns the new version. change is
// called with the lock held and must be quick. ErrStale means that a later leader has written; an
// error of change is returned as it is; the cause of ctx means that ctx ended before the write.
// In all three cases nothing was written. After any other error the outcome is unknown.
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
	if ctx.Err() != nil { // as late as possible: the process may have been frozen
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

// checksum covers the version and the token, too.
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
