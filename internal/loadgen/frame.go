package loadgen

import (
	"encoding/binary"
	"fmt"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// digits is the width of the number at the end of each path.
const digits = 9

// A template is a request frame in which the xid and the number in the path can be
// replaced, so making a request is one copy and two stores.
type template struct {
	frame    []byte
	digitsAt int
}

const xidAt = wire.PrefixBytes

// newTemplate returns the frame of r, whose path lacks only its number.
func newTemplate(r zk.Request) template {
	pathAt := wire.PrefixBytes + wire.HeaderBytes + 4
	t := template{digitsAt: pathAt + len(r.Path)}
	r.Path += fmt.Sprintf("%0*d", digits, 0)
	t.frame = wire.AppendRequest(nil, &r)
	return t
}

// append writes the request with an xid for znode n.
func (t *template) append(b []byte, xid zk.Xid, n int) []byte {
	start := len(b)
	b = append(b, t.frame...)
	f := b[start:]
	binary.BigEndian.PutUint32(f[xidAt:], uint32(xid))
	for i := t.digitsAt + digits - 1; n > 0; i-- {
		f[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

// A source makes the requests of one connection.
type source struct {
	read, write template
	readShare   uint32 // as a fraction of 2^32
	znodes      int    // number of znodes to choose from; 0 counts up instead
	next        int
	state       uint64
}

// newSource prepares the requests of connection conn. It creates znodes below parent.
func newSource(o *Options, conn int, parent string) *source {
	data := payload(o.DataBytes)
	s := &source{znodes: o.Znodes, state: uint64(conn)*0x9E3779B97F4A7C15 + 1,
		read:  newTemplate(zk.Request{Op: zk.OpGetData, Path: dataPath(o.Prefix)}),
		write: newTemplate(zk.Request{Op: zk.OpSetData, Path: dataPath(o.Prefix), Data: data, Version: -1})}
	switch o.Workload {
	case Get:
		s.readShare = 1<<32 - 1
	case Mix:
		s.readShare = uint32(uint64(o.ReadPercent) * (1<<32 - 1) / 100)
	case Create:
		s.znodes = 0
		s.write = newTemplate(zk.Request{Op: zk.OpCreate, Path: parent + "/n", Data: data, ACL: zk.OpenACL()})
	}
	return s
}

// dataPath returns the path of the znodes that are read and set, without the number.
func dataPath(prefix string) string { return prefix + "/d" }

// payload returns n bytes of data that are not all alike.
func payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + i%26)
	}
	return b
}

// append writes the next request.
func (s *source) append(b []byte, xid zk.Xid) []byte {
	if s.znodes == 0 {
		s.next++
		return s.write.append(b, xid, s.next-1)
	}
	// splitmix64: cheap, and random enough to visit all znodes.
	s.state += 0x9E3779B97F4A7C15
	z := s.state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	z ^= z >> 31
	n := int(uint64(uint32(z)) * uint64(s.znodes) >> 32)
	if uint32(z>>32) < s.readShare || s.readShare == 1<<32-1 {
		return s.read.append(b, xid, n)
	}
	return s.write.append(b, xid, n)
}
