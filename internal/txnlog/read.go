package txnlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/conclave-project/conclave/internal/adler"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Record is one transaction as it is in the log.
type Record struct {
	Zxid    zk.Zxid
	Payload []byte // header, body, digest; valid until the next call of Next
	File    string // full name of its segment
	Offset  int64  // of the record in File
}

// Torn is an end that a crash left: from Offset on, File holds nothing that was acknowledged.
type Torn struct {
	File   string
	Offset int64
	Found  string // a description of what is there
	sector bool   // the crash shows only in a sector of zeros, which data may contain as well. Here, or in a torn end before
	before *Torn  // the torn end of an older segment, with no record between the two
}

// ReadOptions say what a Reader accepts.
type ReadOptions struct {
	PayloadBytesMax int  // 0: PayloadBytesMax
	AllowGaps       bool // do not refuse a record that does not follow its predecessor
	// Snapshots are the zxids of the snapshots beside the log. A snapshot between the last
	// record of an epoch and the first of another one, but of neither, may be a leader's state,
	// of which the log has nothing: ZooKeeper's own servers keep the earlier log (txnlog-L8).
	Snapshots []zk.Zxid
	// Behind is set if the log ends before a snapshot beside it. Then MakeDurable writes no
	// mark, because with it the next start would consider lost what only that snapshot has.
	Behind bool
}

func (o ReadOptions) withDefaults() ReadOptions {
	if o.PayloadBytesMax <= 0 {
		o.PayloadBytesMax = PayloadBytesMax
	}
	return o
}

// between reports whether a snapshot belongs to neither of two consecutive records, but to
// something between them.
func (o ReadOptions) between(last, next zk.Zxid) bool {
	return slices.ContainsFunc(o.Snapshots, func(s zk.Zxid) bool { return last < s && s < next })
}

// unsyncedMax is how many bytes of the newest segment may be unsynced (txnlog-L5).
func (o ReadOptions) unsyncedMax() int64 {
	return int64(unsyncedBytesMax + o.withDefaults().PayloadBytesMax + recordFrameBytes)
}

// Reader reads the records after a zxid over all segments, in order. It checks every record,
// including those it skips. One goroutine uses it.
type Reader struct {
	fs       vfs.FS
	dir      string
	options  ReadOptions
	after    zk.Zxid
	segments []Segment // still to be opened
	torn     *Torn     // the last torn end seen
	pending  bool      // torn is the last thing read; a record that follows, or the end, decides what it means
	last     zk.Zxid   // zxid of the record before, at least after
	lowest   zk.Zxid   // zxid of the record before, skipped ones included
	before   zk.Zxid   // the record before the segment according to its head, until one is returned
	err      error     // sticky, also io.EOF

	file   vfs.File
	name   string
	size   int64
	end    int64 // end of the records that were read in the file
	offset int64 // offset of window[0] in the file
	window []byte
	buffer []byte // backs window
}

// readBytes is how many bytes are read from a segment at a time.
const readBytes = 256 << 10

// NewReader reads from the record after after. A negative after means the beginning, whatever
// the first zxid is; 0 means the beginning of a history.
func NewReader(fsys vfs.FS, dir string, after zk.Zxid, options ReadOptions) (*Reader, error) {
	segments, err := Segments(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("read transaction log in %s: %w", dir, err)
	}
	return &Reader{
		fs: fsys, dir: dir, options: options.withDefaults(), after: after, last: after, lowest: -1,
		segments: covering(segments, after),
	}, nil
}

// NewSegmentReader reads one segment from its beginning, for tools that look at single files. A
// torn end of it is reported regardless of what follows elsewhere.
func NewSegmentReader(fsys vfs.FS, dir string, segment Segment, options ReadOptions) *Reader {
	return &Reader{
		fs: fsys, dir: dir, options: options.withDefaults(), after: -1, last: -1, lowest: -1, segments: []Segment{segment},
	}
}

// Next returns the next record, or io.EOF after the last one. A damaged log gives a
// vfs.Corruption. After an error every call returns it.
func (r *Reader) Next() (Record, error) {
	for r.err == nil {
		record, ok, err := r.step()
		if err != nil {
			r.err = err
			break
		}
		if ok {
			return record, nil
		}
	}
	return Record{}, r.err
}

// Behind reports whether the log ends before the zxid after which it was read. It is valid once
// Next has returned io.EOF.
func (r *Reader) Behind() bool { return r.lowest > 0 && r.lowest < r.after }

// Torn returns a torn end, once Next has returned io.EOF; before that, and if the log ends
// cleanly, it returns nil.
func (r *Reader) Torn() *Torn {
	if r.err == io.EOF && r.pending {
		return r.torn
	}
	return nil
}

// Last returns the zxid of the last record returned, or the after of NewReader.
func (r *Reader) Last() zk.Zxid { return r.last }

// Close ends the reading at any point.
func (r *Reader) Close() error {
	if r.err == nil {
		r.err = errors.New("transaction log reader is closed")
	}
	return r.closeFile()
}

func (r *Reader) closeFile() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// step moves on by one record, or to the end of a segment. ok is false when there was no record
// to return.
func (r *Reader) step() (record Record, ok bool, err error) {
	if r.file == nil {
		if len(r.segments) == 0 {
			return Record{}, false, io.EOF
		}
		return Record{}, false, r.openNext()
	}
	payload, offset, err := r.record()
	if err != nil {
		return Record{}, false, err
	}
	if payload == nil {
		return Record{}, false, r.closeFile()
	}
	r.end = r.offset
	zxid := payloadZxid(payload)
	if zxid == r.lowest && refusal(payload) {
		return Record{}, false, nil
	}
	if err := r.admit(zxid, offset); err != nil {
		return Record{}, false, err
	}
	record = Record{Zxid: zxid, Payload: payload, File: r.name, Offset: offset}
	return record, zxid > r.after, nil
}

// admit checks the place of a record in the history.
func (r *Reader) admit(zxid zk.Zxid, offset int64) error {
	if zxid <= r.lowest {
		return r.corrupt(offset, "a zxid above "+r.lowest.String(), "zxid "+zxid.String())
	}
	r.lowest = zxid
	if zxid <= r.after {
		return nil
	}
	// The first record of an epoch follows any record. After an end that may be damaged rather
	// than torn, it does not prove that nothing is missing. MakeDurable removes torn ends, so
	// the log of this server has no such end here.
	lost := r.pending && r.torn.sector && zxid.Epoch() != r.last.Epoch() || r.options.between(r.last, zxid) ||
		r.last >= 0 && r.last < r.before
	if !r.options.AllowGaps && (lost || !Follows(r.last, zxid)) {
		if r.pending {
			return r.corruptAt(r.torn.File, r.torn.Offset, "a record after "+r.last.String(),
				fmt.Sprintf("%s, while the log goes on with %s in %s", r.torn.Found, zxid, r.name))
		}
		return r.corrupt(offset, "the transaction after "+r.last.String(),
			fmt.Sprintf("%s: transactions are missing", zxid))
	}
	r.last, r.before = zxid, 0
	r.pending = false
	return nil
}

// openNext opens the next segment and checks its head.
func (r *Reader) openNext() error {
	r.name = filepath.Join(r.dir, r.segments[0].Name)
	r.segments = r.segments[1:]
	file, err := r.fs.Open(r.name)
	if err != nil {
		return fmt.Errorf("read transaction log: %w", err)
	}
	r.file, r.offset, r.window, r.end = file, 0, nil, 0
	if r.size, err = file.Size(); err != nil {
		return fmt.Errorf("read transaction log: %w", err)
	}
	if err := r.fill(segmentHeadBytes); err != nil {
		return err
	}
	if len(r.window) < segmentHeadBytes {
		return r.endTorn(0, "an incomplete head")
	}
	magic, version := binary.BigEndian.Uint32(r.window), binary.BigEndian.Uint32(r.window[4:])
	if magic == segmentMagic && version == segmentVersion {
		r.before = zk.Zxid(binary.BigEndian.Uint64(r.window[predecessorOffset:]))
		r.take(segmentHeadBytes)
		r.end = r.offset
		return nil
	}
	return r.judgeHead()
}

// record reads one record at the start of the window. A nil payload means the end of the
// segment, clean or torn.
func (r *Reader) record() (payload []byte, offset int64, err error) {
	offset = r.offset
	if err := r.fill(recordHeadBytes); err != nil {
		return nil, offset, err
	}
	if len(r.window) < recordHeadBytes {
		return nil, offset, r.judge(len(r.window), "the end of the file inside a record head")
	}
	checksum := binary.BigEndian.Uint64(r.window)
	length := int32(binary.BigEndian.Uint32(r.window[8:]))
	if length == 0 {
		return nil, offset, r.judge(recordHeadBytes, "a record of length 0")
	}
	if int(length) > r.options.PayloadBytesMax {
		if err := r.tooLong(offset, checksum, int(length)); err != nil {
			return nil, offset, err
		}
	}
	if length < payloadBytesMin || int(length) > r.options.PayloadBytesMax {
		return nil, offset, r.judge(recordHeadBytes, fmt.Sprintf("a record of length %d (%d to %d are allowed)",
			length, payloadBytesMin, r.options.PayloadBytesMax))
	}
	extent := int(length) + recordFrameBytes
	if err := r.fill(extent); err != nil {
		return nil, offset, err
	}
	if len(r.window) < extent {
		return nil, offset, r.judge(extent, "the end of the file inside a record")
	}
	payload = r.window[recordHeadBytes : extent-1]
	if trailer := r.window[extent-1]; trailer != recordTrailer {
		return nil, offset, r.judge(extent, fmt.Sprintf("%#02x at the end of a record (%#02x is right)", trailer, recordTrailer))
	}
	if sum := uint64(adler.Checksum(payload)); sum != checksum {
		return nil, offset, r.judge(extent, fmt.Sprintf("a record with checksum %08x (its head says %x)", sum, checksum))
	}
	r.take(extent)
	return payload, offset, nil
}

// tooLong checks whether a record that is longer than the limit is whole, because it was
// written with another limit.
func (r *Reader) tooLong(offset int64, checksum uint64, length int) error {
	if int64(length)+recordFrameBytes > r.size-r.offset { // the sum may be more than an int of 32 bits
		return nil
	}
	extent := length + recordFrameBytes
	if err := r.fill(extent); err != nil {
		return err
	}
	if len(r.window) < extent || r.window[extent-1] != recordTrailer ||
		uint64(adler.Checksum(r.window[recordHeadBytes:extent-1])) != checksum {
		return nil
	}
	return &vfs.TooLong{File: r.name, Offset: offset, Bytes: length, Limit: r.options.PayloadBytesMax}
}

// fill makes the window at least n bytes long, or shorter at the end of the file.
func (r *Reader) fill(n int) error {
	if len(r.window) >= n {
		return nil
	}
	want := max(n, readBytes)
	if left := r.size - r.offset; int64(want) > left {
		want = int(left)
	}
	if cap(r.buffer) < want {
		r.buffer = make([]byte, want)
	}
	have := copy(r.buffer[:cap(r.buffer)], r.window)
	count, err := io.ReadFull(r.file, r.buffer[have:max(want, have)])
	r.window = r.buffer[:have+count]
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("read transaction log: %w", err)
	}
	return nil
}

// take drops n bytes from the front of the window.
func (r *Reader) take(n int) {
	r.window = r.window[n:]
	r.offset += int64(n)
}

func (r *Reader) corrupt(offset int64, expected, found string) error {
	return r.corruptAt(r.name, offset, expected, found)
}

func (r *Reader) corruptAt(file string, offset int64, expected, found string) error {
	return &vfs.Corruption{
		File: file, Offset: offset, Expected: expected, Found: found,
		Remedy: vfs.Replace,
	}
}

func isZero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
