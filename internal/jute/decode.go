package jute

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrShort is what a Decoder fails with when the input ends too early.
var ErrShort = errors.New("jute: input ends within a value")

// Decoder reads values from a byte slice. The zero Decoder reads nothing. It is
// not safe for concurrent use.
type Decoder struct {
	rest     []byte
	bytesMax int // longest byte string accepted
	err      error
}

// NewDecoder reads b and accepts byte strings of up to bytesMax bytes.
func NewDecoder(b []byte, bytesMax int) Decoder { return Decoder{rest: b, bytesMax: bytesMax} }

// Err returns the first failure, nil if all went well so far.
func (d *Decoder) Err() error { return d.err }

// Fail makes err the decoder's failure unless it has one.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
		d.rest = nil
	}
}

// Len returns how many bytes are left.
func (d *Decoder) Len() int { return len(d.rest) }

// Rest returns what is left, without consuming it.
func (d *Decoder) Rest() []byte { return d.rest }

// Skip takes these bytes if they come next, and reports whether they do.
func (d *Decoder) Skip(next []byte) bool {
	rest, ok := bytes.CutPrefix(d.rest, next)
	d.rest = rest
	return ok
}

// take returns the next n bytes, or nil after a failure.
func (d *Decoder) take(n int) []byte {
	if n > len(d.rest) {
		d.Fail(ErrShort)
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

// Bool reads one byte; any value except 0 is true.
func (d *Decoder) Bool() bool { return d.Byte() != 0 }

// Int reads 4 bytes.
func (d *Decoder) Int() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Long reads 8 bytes.
func (d *Decoder) Long() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// Bytes reads a buffer: nil if null, a part of the input otherwise (jute-J3).
func (d *Decoder) Bytes() []byte {
	n := int(d.Int())
	switch {
	case d.err != nil || n == -1:
		return nil
	case n < 0:
		d.Fail(fmt.Errorf("jute: negative length %d", n))
		return nil
	case d.bytesMax > 0 && n > d.bytesMax:
		d.Fail(fmt.Errorf("jute: length %d is above the limit of %d", n, d.bytesMax))
		return nil
	}
	if n == 0 {
		return []byte{}
	}
	return d.take(n)
}

// String reads a ustring; null reads as empty and is not an error.
func (d *Decoder) String() string { return string(d.Bytes()) }

// StringNotNull reads a ustring and fails on null.
func (d *Decoder) StringNotNull() string {
	b := d.Bytes()
	if b == nil {
		d.Fail(errors.New("jute: string is null"))
	}
	return string(b)
}

// NullString reads a ustring that may be null.
func (d *Decoder) NullString() *string {
	b := d.Bytes()
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

// Count reads the count of a vector whose elements take at least elementBytes
// each (jute-J2). A negative count reads as -1 if it was -1 (null), else as 0, as
// ZooKeeper does.
func (d *Decoder) Count(elementBytes int) int {
	n := int(d.Int())
	if d.err != nil {
		return 0
	}
	if n < 0 {
		if n == -1 {
			return -1
		}
		return 0
	}
	if n > len(d.rest)/elementBytes { // a product could wrap around where an int has 32 bits
		d.Fail(fmt.Errorf("jute: %d elements cannot fit in %d bytes", n, len(d.rest)))
		return 0
	}
	return n
}

// Strings reads a vector of ustrings; nil if null. A null element fails.
func (d *Decoder) Strings() []string {
	n := d.Count(4)
	if n < 0 {
		return nil
	}
	out := make([]string, 0, min(n, 1024))
	for range n {
		out = append(out, d.StringNotNull())
		if d.err != nil {
			return nil
		}
	}
	return out
}
