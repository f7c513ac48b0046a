//go:build linux

package floor

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/conclave-project/conclave/zk"
)

const (
	znodesMax  = 8 << 20       // memory is used only as znodes are created
	indexSize  = 2 * znodesMax // at most half full, so a search is short
	znodeBytes = 184           // for path and data
)

// A znode takes four cache lines, which the garbage collector need not scan.
type znode struct {
	stat       [statBytes]byte // in the form in which it is sent
	pathLength uint16
	dataLength uint16
	bytes      [znodeBytes]byte // path, then data
}

func (z *znode) path() []byte { return z.bytes[:z.pathLength] }
func (z *znode) data() []byte { return z.bytes[z.pathLength:][:z.dataLength] }

// set replaces the data of a znode, and the part of its stat that a write changes.
func (z *znode) set(data []byte, zxid uint64, now time.Time) {
	z.dataLength = uint16(copy(z.bytes[z.pathLength:], data))
	binary.BigEndian.PutUint64(z.stat[mzxidAt:], zxid)
	binary.BigEndian.PutUint64(z.stat[mtimeAt:], uint64(now.UnixMilli()))
	binary.BigEndian.PutUint32(z.stat[dataLengthAt:], uint32(z.dataLength))
}

// Offsets of the fields of a stat.
const (
	czxidAt, mzxidAt, ctimeAt, mtimeAt = 0, 8, 16, 24
	versionAt, dataLengthAt, pzxidAt   = 32, 52, 60
	statBytes                          = 68
)

// A store is the state that clients see.
type store struct {
	zxid   uint64 // of the last write
	znodes []znode
	index  []uint32 // index in znodes plus one, at the hash of the path or after it
	seed   maphash.Seed
}

func newStore() *store {
	return &store{znodes: make([]znode, 0, znodesMax), index: make([]uint32, indexSize), seed: maphash.MakeSeed()}
}

// slot returns the index slot where a path is, or would be.
func (s *store) slot(path []byte) *uint32 {
	for i := maphash.Bytes(s.seed, path); ; i++ {
		at := &s.index[i%indexSize]
		if *at == 0 || string(s.znodes[*at-1].path()) == string(path) {
			return at
		}
	}
}

// find returns a znode; nil if there is none.
func (s *store) find(path []byte) *znode {
	if at := *s.slot(path); at != 0 {
		return &s.znodes[at-1]
	}
	return nil
}

// answer carries out a request and appends its reply:
//
//	length 4 | xid 4 | op 4 | path | ...        path and data: length 4 | bytes
//	length 4 | xid 4 | zxid 8 | code 4 | body
func (s *store) answer(out, request []byte, now time.Time) []byte {
	start, code := len(out), zk.OK
	out = append(out, make([]byte, replyHeaderBytes)...)
	if writes(request) {
		s.zxid++
	}
	switch op(request) {
	case zk.OpGetData:
		path, _ := field(request[requestHeaderBytes:])
		if z := s.find(path); z != nil {
			out = appendField(out, z.data())
			out = append(out, z.stat[:]...)
		} else {
			code = zk.ErrNoNode
		}
	case zk.OpSetData:
		path, rest := field(request[requestHeaderBytes:])
		if z := s.find(path); z != nil {
			data, _ := field(rest)
			z.set(data, s.zxid, now)
			binary.BigEndian.PutUint32(z.stat[versionAt:], binary.BigEndian.Uint32(z.stat[versionAt:])+1)
			out = append(out, z.stat[:]...)
		} else {
			code = zk.ErrNoNode
		}
	case zk.OpCreate:
		path, rest := field(request[requestHeaderBytes:])
		data, _ := field(rest)
		if flags := request[len(request)-1]; flags&byte(zk.PersistentSequential) != 0 {
			path = fmt.Appendf(nil, "%s%010d", path, s.zxid)
		}
		s.create(path, data, now)
		out = appendField(out, path)
	case zk.OpPing, zk.OpCloseSession:
	default:
		code = zk.ErrUnimplemented
	}
	header := out[start:]
	binary.BigEndian.PutUint32(header, uint32(len(header)-prefixBytes))
	copy(header[4:8], request[4:8])
	binary.BigEndian.PutUint64(header[8:], s.zxid)
	binary.BigEndian.PutUint32(header[16:], uint32(code))
	return out
}

// create creates a znode; an existing one is reset.
func (s *store) create(path, data []byte, now time.Time) {
	at := s.slot(path)
	if *at == 0 {
		if len(s.znodes) == znodesMax || len(path)+len(data) > znodeBytes {
			panic("floor: too many znodes, or one that is too long") // a measurement must not do this
		}
		s.znodes = s.znodes[:len(s.znodes)+1]
		*at = uint32(len(s.znodes))
	}
	z := &s.znodes[*at-1]
	*z = znode{pathLength: uint16(copy(z.bytes[:], path))}
	copy(z.bytes[:], path)
	z.set(data, s.zxid, now)
	copy(z.stat[czxidAt:], z.stat[mzxidAt:][:8])
	copy(z.stat[ctimeAt:], z.stat[mtimeAt:][:8])
	copy(z.stat[pzxidAt:], z.stat[mzxidAt:][:8])
}

const (
	prefixBytes        = 4
	requestHeaderBytes = prefixBytes + 8
	replyHeaderBytes   = prefixBytes + 16
)

func op(request []byte) zk.Op { return zk.Op(int32(binary.BigEndian.Uint32(request[8:]))) }

// writes reports whether a request must be synced before it is answered.
func writes(request []byte) bool { return op(request) == zk.OpSetData || op(request) == zk.OpCreate }

// field splits off a field with a length in front; null is returned as empty.
func field(b []byte) (field, rest []byte) {
	n := max(0, int(int32(binary.BigEndian.Uint32(b))))
	return b[4 : 4+n], b[4+n:]
}

func appendField(b, field []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(field))), field...)
}
