package snap

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Sink receives the content of a snapshot, in the order of the file. Until the load has
// returned without an error, nothing of it may be used (snap-P2). An error of the Sink ends the
// load.
type Sink interface {
	Session(id zk.SessionID, timeoutMs int32) error
	// ACL receives an ACL, which the Sink may keep.
	ACL(id int64, entries []zk.ACL) error
	// Node receives a znode. Path and data are valid only during the call: they alias the read
	// buffer. Data is nil when it is null.
	Node(path string, data []byte, acl int64, stat zk.StatPersisted) error
}

// Preparer is a Sink that is told in advance what comes, in a large file that is read on
// another goroutine.
type Preparer interface {
	Sink
	expecter
	// Prepare receives the paths of some znodes that come next. They are valid only during the
	// call.
	Prepare(paths []string)
	// Sum computes, from a znode alone, what NodeSummed is given for it. It is called on the
	// goroutine that reads the file, concurrently with all other calls.
	Sum(path string, data []byte, stat *zk.StatPersisted) (body uint32, znode uint64)
	// NodeSummed is Node with the result of Sum, and is called instead of it.
	NodeSummed(path string, data []byte, acl int64, stat zk.StatPersisted, body uint32, znode uint64) error
}

type expecter interface {
	// Expect is called from time to time with an estimate of how many znodes come before the
	// next call.
	Expect(znodes int)
}

// Discard is a Sink for a load that only verifies.
type Discard struct{}

// Session implements Sink.
func (Discard) Session(zk.SessionID, int32) error { return nil }

// ACL implements Sink.
func (Discard) ACL(int64, []zk.ACL) error { return nil }

// Node implements Sink.
func (Discard) Node(string, []byte, int64, zk.StatPersisted) error { return nil }

// Info is what a load reports in addition to what it passed to the Sink.
type Info struct {
	Sessions int   `json:"sessions"`
	ACLs     int   `json:"acls"`
	Nodes    int   `json:"znodes"`
	Bytes    int64 `json:"bytes"` // before compression

	Sum uint32 `json:"-"` // Adler-32 of the whole stream, before compression

	DigestZxid zk.Zxid   `json:"digestZxid"` // the zxid at which the tree had Digest
	Digest     zk.Digest `json:"digest"`     // version 0: the section is absent (3.5 and older)
	Last       zk.Zxid   `json:"last"`       // last zxid applied when the writer finished; -1: absent (3.8 and older)
}

// Options of a load.
type Options struct {
	BufferBytesMax int // longest path or data accepted; 0: ZooKeeper's default limit

	// Beside runs a function on a goroutine of its own. A large file is read and verified
	// there, while the caller's goroutine passes the content to the Sink. With nil one
	// goroutine does both.
	Beside func(func())
}

// lengthMax is more than any setting of ZooKeeper allows for a path or data.
const lengthMax = 1 << 30

// LoadFile loads a snapshot and verifies all of it. A vfs.Corruption reports a damaged file,
// and a vfs.TooLong a whole file with a path or data longer than the options allow. Any other
// error is that of the disk or the Sink.
func LoadFile(fsys vfs.FS, dir string, file File, options Options, sink Sink) (Info, error) {
	info, err := loadFile(fsys, dir, file, options, sink)
	if vfs.IsTooLong(err) {
		if _, damage := loadFile(fsys, dir, file, Options{BufferBytesMax: lengthMax}, Discard{}); damage != nil {
			return Info{}, damage
		}
	}
	return info, err
}

func loadFile(fsys vfs.FS, dir string, file File, options Options, sink Sink) (Info, error) {
	name := filepath.Join(dir, file.Name)
	f, err := fsys.Open(name)
	if err != nil {
		return Info{}, fmt.Errorf("load snapshot: %w", err)
	}
	defer f.Close()
	disk := &diskReader{r: vfs.Ahead(f)}
	d := &decoder{name: name, disk: disk, max: options.BufferBytesMax, sink: sink}
	size, err := f.Size()
	if err != nil {
		return Info{}, fmt.Errorf("load snapshot: %w", err)
	}
	if file.Compression == Plain {
		d.size = size
	}
	if d.r, err = decompressor(file.Compression, disk); err != nil {
		return Info{}, d.unpackError(err)
	}
	if options.Beside != nil && size >= besideBytes {
		return d.loadBeside(options.Beside)
	}
	return d.load()
}

// Load loads an uncompressed stream, for example one that came over the network. The name is
// used in errors.
func Load(r io.Reader, name string, options Options, sink Sink) (Info, error) {
	disk := &diskReader{r: r}
	d := &decoder{name: name, r: disk, disk: disk, max: options.BufferBytesMax, sink: sink}
	info, err := d.load()
	var long *vfs.TooLong
	if errors.As(err, &long) { // only reading the stream again would show whether it is whole
		return Info{}, d.corrupt(long.Offset, "a length", fmt.Sprint(long.Bytes))
	}
	return info, err
}

// LoadStream loads what NewStreamEncoder's Encoder wrote, and reads not a byte after it: other
// data follows on the same link. It asks r for a few bytes at a time, so r should have a
// buffer. Nothing protects the content but its lengths. In Info only the counts are set. The
// name is used in errors. A vfs.Corruption reports an invalid stream; any other error is that
// of r, where an end is io.ErrUnexpectedEOF, or that of the Sink.
func LoadStream(r io.Reader, name string, options Options, sink Sink) (Info, error) {
	link := &diskReader{r: wholeReader{r}}
	d := &decoder{name: name, r: link, disk: link, max: options.BufferBytesMax, sink: sink, bare: true}
	return d.load()
}

// wholeReader reads from a reader that must not end yet.
type wholeReader struct{ r io.Reader }

func (w wholeReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	return n, unexpected(err)
}

// Verify loads a snapshot without using its content.
func Verify(fsys vfs.FS, dir string, file File, options Options) (Info, error) {
	return LoadFile(fsys, dir, file, options, Discard{})
}

// diskReader remembers the error of the reader below it, to distinguish a disk that cannot be
// read from a stream that cannot be unpacked.
type diskReader struct {
	r   io.Reader
	err error
}

func (d *diskReader) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if err != nil && err != io.EOF {
		d.err = err
	}
	return n, err
}
