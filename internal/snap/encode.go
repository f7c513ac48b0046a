package snap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/conclave-project/conclave/internal/adler"
	"github.com/conclave-project/conclave/zk"
)

// stage is how far an Encoder has come.
type stage int

const (
	stageStart stage = iota
	stageSessions
	stageACLs
	stageNodes
	stageEnded
)

// portionBytes is how many bytes an Encoder gathers before it writes.
const portionBytes = 128 << 10

// errOrder is the error of a call that is out of order in the format.
var errOrder = errors.New("snapshot written out of order")

// Encoder writes the stream of one snapshot: Begin, then as many Sessions and ACLs as
// announced, then Nodes, parents first, then End. After an error every call returns it, so it
// is enough to check that of End. One goroutine uses it.
type Encoder struct {
	w       io.Writer
	bare    bool // for a link: no header, and no sections after the znodes
	buffer  []byte
	sum     uint32
	summed  int // bytes of buffer that are included in sum
	written int64
	stage   stage
	left    int // announced sessions or ACLs that are still to come
	acls    int
	err     error
}

// NewEncoder returns an Encoder that writes to w.
func NewEncoder(w io.Writer) *Encoder {
	return &Encoder{w: w, sum: adler.Begin}
}

// NewStreamEncoder returns an Encoder that writes to w what one server sends to another after a
// SNAP: the sessions, the ACLs and the znodes of a snapshot, with their end mark, but no
// header, no seals and no further sections. LoadStream reads it.
func NewStreamEncoder(w io.Writer) *Encoder {
	e := NewEncoder(w)
	e.bare = true
	return e
}

// Bytes returns the length of the stream so far, before compression.
func (e *Encoder) Bytes() int64 { return e.written + int64(len(e.buffer)) }

// Err returns the first error, or nil.
func (e *Encoder) Err() error { return e.err }

// Begin announces how many sessions and ACLs will come.
func (e *Encoder) Begin(sessions, acls int) error {
	if !e.enter(stageStart) {
		return e.err
	}
	if !e.bare {
		e.int32(magic)
		e.int32(version)
		e.int64(dbid)
	}
	e.int32(int32(sessions))
	e.stage, e.left, e.acls = stageSessions, sessions, acls
	e.advance()
	return e.err
}

// Session writes one session with its timeout.
func (e *Encoder) Session(id zk.SessionID, timeoutMs int32) error {
	if !e.enter(stageSessions) {
		return e.err
	}
	e.int64(int64(id))
	e.int32(timeoutMs)
	e.left--
	e.advance()
	return e.err
}

// ACL writes one ACL with the id by which znodes refer to it.
func (e *Encoder) ACL(id int64, entries []zk.ACL) error {
	if !e.enter(stageACLs) {
		return e.err
	}
	e.int64(id)
	e.int32(int32(len(entries)))
	for i := range entries {
		e.int32(int32(entries[i].Perms))
		e.text(entries[i].Scheme)
		e.text(entries[i].ID)
	}
	e.left--
	e.advance()
	return e.err
}

// advance skips the stages for which nothing is announced.
func (e *Encoder) advance() {
	if e.stage == stageSessions && e.left == 0 {
		e.int32(int32(e.acls))
		e.stage, e.left = stageACLs, e.acls
	}
	if e.stage == stageACLs && e.left == 0 {
		e.stage = stageNodes
	}
}

// Node writes one znode. The root's path is empty. Nil data is null, which differs from empty
// data. ACL -1 means that everybody may do everything.
func (e *Encoder) Node(path string, data []byte, acl int64, stat *zk.StatPersisted) error {
	if !e.enter(stageNodes) {
		return e.err
	}
	if path == endMark {
		e.err = errors.New("snapshot: the root's path is empty, \"/\" is the end mark")
		return e.err
	}
	e.text(path)
	if data == nil {
		e.int32(-1)
	} else {
		e.int32(int32(len(data)))
		e.buffer = append(e.buffer, data...)
	}
	e.int64(acl)
	e.buffer = appendStat(e.buffer, stat)
	if len(e.buffer) >= portionBytes {
		e.flush()
	}
	return e.err
}

// End closes the stream with all sections: the znodes' seal, the digest that the tree had at
// digestZxid, and the last zxid applied. An unknown digest has version 0 and is written as
// ZooKeeper writes it: zxid 0, value 0. A stream for a link has no place for any of these, and
// ends with the end mark.
func (e *Encoder) End(digestZxid zk.Zxid, digest zk.Digest, last zk.Zxid) error {
	if !e.enter(stageNodes) {
		return e.err
	}
	if digest.Version == 0 {
		digestZxid, digest = 0, zk.Digest{Version: zk.DigestVersion}
	}
	e.text(endMark)
	if !e.bare {
		e.sections(digestZxid, digest, last)
	}
	e.flush()
	e.stage = stageEnded
	return e.err
}

// sections writes what follows the znodes in a file.
func (e *Encoder) sections(digestZxid zk.Zxid, digest zk.Digest, last zk.Zxid) {
	e.seal()
	e.int64(int64(digestZxid))
	e.int32(digest.Version)
	e.int64(int64(digest.Value))
	e.seal()
	e.int64(int64(last))
	e.seal()
}

// enter checks that a call belongs to the current stage.
func (e *Encoder) enter(s stage) bool {
	if e.err == nil && e.stage != s {
		e.err = fmt.Errorf("%w: in stage %d a call for stage %d", errOrder, e.stage, s)
	}
	return e.err == nil
}

func (e *Encoder) int32(v int32) { e.buffer = binary.BigEndian.AppendUint32(e.buffer, uint32(v)) }
func (e *Encoder) int64(v int64) { e.buffer = binary.BigEndian.AppendUint64(e.buffer, uint64(v)) }

func (e *Encoder) text(s string) {
	e.int32(int32(len(s)))
	e.buffer = append(e.buffer, s...)
}

// Sum returns the Adler-32 of what was written, after End: the same as Info.Sum.
func (e *Encoder) Sum() uint32 { return e.sum }

// seal writes the checksum of everything before it, including earlier seals.
func (e *Encoder) seal() {
	e.digest()
	e.int64(int64(e.sum))
	e.text(endMark)
}

func (e *Encoder) digest() {
	if e.bare {
		return
	}
	e.sum = adler.Update(e.sum, e.buffer[e.summed:])
	e.summed = len(e.buffer)
}

func (e *Encoder) flush() {
	if e.err != nil {
		return
	}
	e.digest()
	n, err := e.w.Write(e.buffer)
	e.written += int64(n)
	e.buffer, e.summed = e.buffer[:0], 0
	e.err = err
}

func appendStat(b []byte, s *zk.StatPersisted) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.Czxid))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Mzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Ctime))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Mtime))
	b = binary.BigEndian.AppendUint32(b, uint32(s.Version))
	b = binary.BigEndian.AppendUint32(b, uint32(s.Cversion))
	b = binary.BigEndian.AppendUint32(b, uint32(s.Aversion))
	b = binary.BigEndian.AppendUint64(b, uint64(s.EphemeralOwner))
	return binary.BigEndian.AppendUint64(b, uint64(s.Pzxid))
}

// readStat reads the statBytes of a stat.
func readStat(b []byte, s *zk.StatPersisted) {
	_ = b[statBytes-1]
	s.Czxid = zk.Zxid(binary.BigEndian.Uint64(b))
	s.Mzxid = zk.Zxid(binary.BigEndian.Uint64(b[8:]))
	s.Ctime = int64(binary.BigEndian.Uint64(b[16:]))
	s.Mtime = int64(binary.BigEndian.Uint64(b[24:]))
	s.Version = int32(binary.BigEndian.Uint32(b[32:]))
	s.Cversion = int32(binary.BigEndian.Uint32(b[36:]))
	s.Aversion = int32(binary.BigEndian.Uint32(b[40:]))
	s.EphemeralOwner = int64(binary.BigEndian.Uint64(b[44:]))
	s.Pzxid = zk.Zxid(binary.BigEndian.Uint64(b[52:]))
}
