package probe

import (
	"encoding/binary"
	"errors"
)

// errShort is the error for a reply that ends before its record does.
var errShort = errors.New("reply is too short")

// An encoder appends the primitives of the protocol, all big-endian.
type encoder struct{ bytes []byte }

func (e *encoder) int32(v int32) { e.bytes = binary.BigEndian.AppendUint32(e.bytes, uint32(v)) }
func (e *encoder) int64(v int64) { e.bytes = binary.BigEndian.AppendUint64(e.bytes, uint64(v)) }

func (e *encoder) bool(v bool) {
	if v {
		e.bytes = append(e.bytes, 1)
	} else {
		e.bytes = append(e.bytes, 0)
	}
}

func (e *encoder) string(v string) {
	e.int32(int32(len(v)))
	e.bytes = append(e.bytes, v...)
}

// buffer writes nil as length -1, which is not the same as empty.
func (e *encoder) buffer(v []byte) {
	if v == nil {
		e.int32(-1)
		return
	}
	e.string(string(v))
}

func (e *encoder) acl(acl []ACL) {
	e.int32(int32(len(acl)))
	for _, a := range acl {
		e.int32(a.Perms)
		e.string(a.Scheme)
		e.string(a.ID)
	}
}

// framed returns the bytes with their length in front.
func (e *encoder) framed() []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(e.bytes))), e.bytes...)
}

// A decoder reads primitives; after a short read all further values are zero.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.rest) {
		d.err = errShort
		return make([]byte, 8)
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) int32() int32 { return int32(binary.BigEndian.Uint32(d.take(4))) }
func (d *decoder) int64() int64 { return int64(binary.BigEndian.Uint64(d.take(8))) }

func (d *decoder) buffer() []byte {
	n := d.int32()
	if n == -1 || d.err != nil {
		return nil
	}
	b := d.take(int(n))
	if d.err != nil {
		return nil
	}
	return append([]byte{}, b...)
}

func (d *decoder) string() string { return string(d.buffer()) }

func (d *decoder) strings() []string {
	var list []string
	for n := d.int32(); n > 0 && d.err == nil; n-- {
		list = append(list, d.string())
	}
	return list
}

func (d *decoder) acl() []ACL {
	var list []ACL
	for n := d.int32(); n > 0 && d.err == nil; n-- {
		list = append(list, ACL{d.int32(), d.string(), d.string()})
	}
	return list
}

func (d *decoder) stat() Stat {
	return Stat{d.int64(), d.int64(), d.int64(), d.int64(), d.int32(), d.int32(), d.int32(),
		d.int64(), d.int32(), d.int32(), d.int64()}
}
