package snap

import (
	"encoding/binary"
	"fmt"
	"io"
	"unsafe"

	"github.com/conclave-project/conclave/internal/adler"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// windowBytes is how many bytes are read at a time, after a first read that is enough for a
// small snapshot.
const (
	windowBytes      = 256 << 10
	firstWindowBytes = 16 << 10
)

// decoder reads one snapshot. What was read and not yet taken is buffer[start:end]; what was
// taken and not yet included in the checksum is buffer[summed:start].
type decoder struct {
	name string
	r    io.Reader
	disk *diskReader
	sink Sink
	max  int
	bare bool  // a stream on a link: it has no header and no seals, and not a byte after it may be read
	size int64 // of the file, 0 if that is not known
	info Info

	buffer             []byte
	summed, start, end int
	sum                uint32
	offset             int64 // of buffer[0] in the uncompressed stream
}

func (d *decoder) load() (Info, error) {
	if d.max <= 0 {
		d.max = bufferBytesLimit
	}
	d.sum = adler.Begin
	d.buffer = make([]byte, firstWindowBytes)
	d.info.Last = -1
	parts := []func() error{d.header, d.sessions, d.acls, d.nodes, d.tail}
	if d.bare {
		parts = []func() error{d.sessions, d.acls, d.nodes}
	}
	for _, part := range parts {
		if err := part(); err != nil {
			return Info{}, err
		}
	}
	d.info.Bytes = d.position()
	d.digest()
	d.info.Sum = d.sum
	return d.info, nil
}

func (d *decoder) header() error {
	p, err := d.next(16)
	if err != nil {
		return err
	}
	if m, v := binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:]); m != magic || v != version {
		return d.corrupt(0, fmt.Sprintf("magic %08x version %d", magic, version),
			fmt.Sprintf("magic %08x version %d", m, v))
	}
	return nil
}

func (d *decoder) sessions() error {
	count, err := d.count("sessions")
	if err != nil {
		return err
	}
	for ; d.info.Sessions < count; d.info.Sessions++ {
		p, err := d.next(sessionBytes)
		if err != nil {
			return err
		}
		id, timeoutMs := zk.SessionID(binary.BigEndian.Uint64(p)), int32(binary.BigEndian.Uint32(p[8:]))
		if err := d.sink.Session(id, timeoutMs); err != nil {
			return d.sinkError(err)
		}
	}
	return nil
}

func (d *decoder) acls() error {
	count, err := d.count("ACL lists")
	if err != nil {
		return err
	}
	for ; d.info.ACLs < count; d.info.ACLs++ {
		p, err := d.next(8)
		if err != nil {
			return err
		}
		id := int64(binary.BigEndian.Uint64(p))
		entries, err := d.acl()
		if err != nil {
			return err
		}
		if err := d.sink.ACL(id, entries); err != nil {
			return d.sinkError(err)
		}
	}
	return nil
}

// acl reads one ACL. It grows with what is read, not with the claimed length.
func (d *decoder) acl() ([]zk.ACL, error) {
	at := d.position()
	p, err := d.next(4)
	if err != nil {
		return nil, err
	}
	count := int(int32(binary.BigEndian.Uint32(p)))
	if count < -1 {
		return nil, d.corrupt(at, "a count of ACL entries", fmt.Sprint(count))
	}
	if count > d.max/aclBytesMin {
		return nil, d.tooLong(at, int64(count)*aclBytesMin)
	}
	var entries []zk.ACL
	for range max(count, 0) {
		p, err := d.next(4)
		if err != nil {
			return nil, err
		}
		entry := zk.ACL{Perms: zk.Perms(binary.BigEndian.Uint32(p))}
		if entry.Scheme, err = d.text(); err != nil {
			return nil, err
		}
		if entry.ID, err = d.text(); err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// nodes reads the znodes and the end mark after them. This loop determines how long a start
// takes: it makes no allocation, looks at the window once for each length, and calls the sink
// once.
func (d *decoder) nodes() error {
	var stat zk.StatPersisted
	first, sample := d.position(), sampleFirst
	for {
		at := d.position()
		p, err := d.peek(4)
		if err != nil {
			return err
		}
		pathLen := int(int32(binary.BigEndian.Uint32(p)))
		if pathLen > d.max {
			return d.tooLong(at, int64(pathLen))
		}
		if pathLen < 0 {
			return d.corrupt(at, "the length of a path", fmt.Sprint(pathLen))
		}
		after := 4 // bytes of the data's length
		if pathLen == len(endMark) {
			after = 0 // only the end mark is that short, and a stream may end with it
		}
		if p, err = d.peek(4 + pathLen + after); err != nil {
			return err
		}
		path := p[4 : 4+pathLen]
		if pathLen > 0 && path[0] != '/' {
			return d.corrupt(at, "a path", fmt.Sprintf("%.40q", path))
		}
		if pathLen == len(endMark) {
			return d.endOfNodes()
		}
		dataLen := int(int32(binary.BigEndian.Uint32(p[4+pathLen:])))
		if dataLen > d.max {
			return d.tooLong(at, int64(dataLen))
		}
		if dataLen < -1 {
			return d.corrupt(at, fmt.Sprintf("the length of the data of %.200q", path), fmt.Sprint(dataLen))
		}
		size := 4 + pathLen + 4 + max(dataLen, 0) + 8 + statBytes
		if p, err = d.peek(size); err != nil {
			return err
		}
		var data []byte
		if dataLen >= 0 {
			data = p[8+pathLen : 8+pathLen+dataLen : 8+pathLen+dataLen]
		}
		numbers := p[size-statBytes-8 : size]
		readStat(numbers[8:], &stat)
		acl := int64(binary.BigEndian.Uint64(numbers))
		if err := d.sink.Node(aliasText(p[4:4+pathLen]), data, acl, stat); err != nil {
			return d.sinkError(nodeError(aliasText(p[4:4+pathLen]), at, err))
		}
		d.start += size
		if d.info.Nodes++; d.info.Nodes == sample {
			d.expect(sample, d.position()-first)
			sample *= sampleFactor
		}
	}
}

// A sink is told how many znodes come after the first sampleFirst, and then whenever their
// number has grown by sampleFactor. The estimate is at most sampleFactor times the number so
// far, because later znodes may be longer.
const (
	sampleFirst  = 4096
	sampleFactor = 16
)

// expect tells the sink how many znodes come until it is told again. It assumes that they are
// as long as those so far, which have the given number of bytes.
func (d *decoder) expect(nodes int, bytes int64) {
	if sink, ok := d.sink.(expecter); ok && d.size > 0 {
		sink.Expect(min(nodes*sampleFactor, int(float64(d.size)*float64(nodes)/float64(bytes))))
	}
}

// endOfNodes reads the end mark, and the seal after it in a file.
func (d *decoder) endOfNodes() error {
	d.start += 4 + len(endMark)
	if d.bare {
		return nil
	}
	return d.seal()
}

// tail reads what follows the first seal; its length says what it is (snap-P3).
func (d *decoder) tail() error {
	at := d.position()
	p, err := d.upTo(tailBytesMax + 1)
	if err != nil {
		return err
	}
	switch len(p) {
	case 0:
		return nil
	case digestPartBytes:
		return d.digestPart()
	case lastPartBytes:
		return d.lastPart()
	case tailBytesMax:
		if err := d.digestPart(); err != nil {
			return err
		}
		return d.lastPart()
	}
	found := fmt.Sprintf("%d", len(p))
	if len(p) > tailBytesMax {
		found = "more"
	}
	return d.corrupt(at, "0, 21, 33 or 54 bytes after the znodes", found)
}

func (d *decoder) digestPart() error {
	p, err := d.next(20)
	if err != nil {
		return err
	}
	d.info.DigestZxid = zk.Zxid(binary.BigEndian.Uint64(p))
	d.info.Digest = zk.Digest{
		Version: int32(binary.BigEndian.Uint32(p[8:])), Value: binary.BigEndian.Uint64(p[12:]),
	}
	return d.seal()
}

func (d *decoder) lastPart() error {
	p, err := d.next(8)
	if err != nil {
		return err
	}
	d.info.Last = zk.Zxid(binary.BigEndian.Uint64(p))
	return d.seal()
}

// seal compares the checksum of everything taken so far with the one that comes next.
func (d *decoder) seal() error {
	at := d.position()
	d.digest()
	sum := uint64(d.sum)
	p, err := d.next(sealBytes)
	if err != nil {
		return err
	}
	if found := binary.BigEndian.Uint64(p); found != sum {
		return d.corrupt(at, fmt.Sprintf("checksum %x", sum), fmt.Sprintf("%x", found))
	}
	if mark := string(p[12:]); binary.BigEndian.Uint32(p[8:]) != uint32(len(endMark)) || mark != endMark {
		return d.corrupt(at, "the end mark of a seal", fmt.Sprintf("%x", p[8:]))
	}
	return nil
}

// count reads the number of items that follow. No memory is allocated for that number.
func (d *decoder) count(what string) (int, error) {
	at := d.position()
	p, err := d.next(4)
	if err != nil {
		return 0, err
	}
	count := int(int32(binary.BigEndian.Uint32(p)))
	if count < 0 {
		return 0, d.corrupt(at, "a count of "+what, fmt.Sprint(count))
	}
	return count, nil
}

// text reads a string, which is copied. A null string becomes the empty one.
func (d *decoder) text() (string, error) {
	at := d.position()
	p, err := d.next(4)
	if err != nil {
		return "", err
	}
	length := int(int32(binary.BigEndian.Uint32(p)))
	if length > d.max {
		return "", d.tooLong(at, int64(length))
	}
	if length < -1 {
		return "", d.corrupt(at, "the length of a text", fmt.Sprint(length))
	}
	p, err = d.next(max(length, 0))
	return string(p), err
}

// tooLong is the error of a length above the limit. Only the seal after it shows whether the
// length is right or damaged: see LoadFile. A length that no setting allows is damage.
func (d *decoder) tooLong(at, length int64) error {
	if length > lengthMax {
		return d.corrupt(at, "a length", fmt.Sprint(length))
	}
	return &vfs.TooLong{File: d.name, Offset: at, Bytes: int(length), Limit: d.max}
}

// position is the offset of the next byte to be taken.
func (d *decoder) position() int64 { return d.offset + int64(d.start) }

// next takes n bytes, which are valid until the next call of any method.
func (d *decoder) next(n int) ([]byte, error) {
	p, err := d.peek(n)
	if err == nil {
		d.start += n
	}
	return p, err
}

// peek returns the next n bytes without taking them; fewer are corruption.
func (d *decoder) peek(n int) ([]byte, error) {
	if d.end-d.start < n {
		p, err := d.upTo(n)
		if err != nil {
			return nil, err
		}
		if len(p) < n {
			return nil, d.corrupt(d.position(), fmt.Sprintf("%d bytes more", n),
				fmt.Sprintf("the end of the file after %d", len(p)))
		}
	}
	return d.buffer[d.start : d.start+n], nil
}

// upTo returns the next n bytes without taking them, or fewer at the end of the stream.
func (d *decoder) upTo(n int) ([]byte, error) {
	if d.end-d.start < n {
		if err := d.fill(n); err != nil {
			return nil, err
		}
	}
	return d.buffer[d.start:min(d.start+n, d.end)], nil
}

// fill moves what is left to the front, adds what was taken to the checksum, and reads until n
// bytes are there or the stream ends. The buffer grows with what is read, because n may be
// damaged.
func (d *decoder) fill(n int) error {
	d.digest()
	d.offset += int64(d.start)
	left := d.buffer[d.start:d.end]
	if d.end == len(d.buffer) && d.end < windowBytes { // there is more
		d.buffer = make([]byte, windowBytes)
	}
	d.end = copy(d.buffer, left)
	d.start, d.summed = 0, 0
	for idle := 0; d.end < n; {
		if d.end == len(d.buffer) {
			larger := make([]byte, min(n, 2*d.end)+windowBytes)
			copy(larger, d.buffer)
			d.buffer = larger
		}
		limit := len(d.buffer)
		if d.bare {
			limit = min(limit, n)
		}
		count, err := d.r.Read(d.buffer[d.end:limit])
		d.end += count
		if count > 0 {
			idle = 0
		} else if idle++; err == nil && idle > 100 {
			err = io.ErrNoProgress
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return d.unpackError(err)
		}
	}
	return nil
}

func (d *decoder) digest() {
	if d.bare {
		return
	}
	d.sum = adler.Update(d.sum, d.buffer[d.summed:d.start])
	d.summed = d.start
}

// aliasText returns p as a string without copying it.
func aliasText(p []byte) string { return unsafe.String(unsafe.SliceData(p), len(p)) }

func (d *decoder) sinkError(err error) error {
	return fmt.Errorf("load snapshot %s: %w", d.name, err)
}

func nodeError(path string, offset int64, err error) error {
	return fmt.Errorf("znode %.200q at offset %d: %w", path, offset, err)
}

// unpackError distinguishes a disk that cannot be read from a stream that cannot be unpacked.
func (d *decoder) unpackError(err error) error {
	if d.disk.err != nil {
		return fmt.Errorf("load snapshot %s: %w", d.name, d.disk.err)
	}
	return d.corrupt(d.position(), "a compressed stream", err.Error())
}

func (d *decoder) corrupt(offset int64, expected, found string) error {
	c := &vfs.Corruption{File: d.name, Offset: offset, Expected: expected, Found: found}
	if !d.bare {
		c.Remedy = "an older snapshot with the logs after it serves as well; move this file away to keep it"
	}
	return c
}
