// Package adler is the checksum Adler-32 (RFC 1950, section 8.2) that ZooKeeper's files have
// over each transaction and each snapshot.
//
// It gives what hash/adler32 gives, in half of the time: that one takes a byte at a
// time, and a snapshot spent a third of its time there. What always holds:
//
//	adler-A1  A sum is that of hash/adler32, however the bytes come in parts.
package adler

import "encoding/binary"

const (
	// modulus is the largest prime below 65536.
	modulus = 65521
	// groupBytes is how many bytes are summed in lanes of 16 bits: of one more, eight bytes
	// of 255 could be too much for a lane.
	groupBytes = 23 * 8
	// reduceBytes is how many bytes are summed before both sums are reduced. They have space
	// for far more.
	reduceBytes = 1 << 20
	// even selects the bytes at even places, each with 16 bits.
	even = 0x00ff00ff00ff00ff
)

// Begin is the sum of no bytes.
const Begin uint32 = 1

// Checksum returns the sum of some bytes.
func Checksum(b []byte) uint32 { return Update(Begin, b) }

// Update returns the sum of the bytes that have given sum, with b after them.
func Update(sum uint32, b []byte) uint32 {
	s := sums{uint64(sum & 0xffff), uint64(sum >> 16)}
	for len(b) > reduceBytes {
		s.add(b[:reduceBytes])
		b = b[reduceBytes:]
	}
	s.add(b)
	return uint32(s.second<<16 | s.first)
}

// sums are the two of the RFC: of the bytes, and of what the first one is after each byte.
type sums struct{ first, second uint64 }

func (s *sums) add(b []byte) {
	for len(b) >= 8 {
		n := min(len(b)&^7, groupBytes)
		s.group(b[:n])
		b = b[n:]
	}
	for _, x := range b {
		s.first += uint64(x)
		s.second += s.first
	}
	s.first %= modulus
	s.second %= modulus
}

// group adds eight bytes at a time. A byte counts in the second sum as often as there are
// bytes from it to the end: eight times for each later eight, and so many times as its place
// in its own eight says.
func (s *sums) group(b []byte) {
	var l lanes
	s.second += uint64(len(b)) * s.first
	for ; len(b) >= 32; b = b[32:] { // four at a time, for one look at the length
		l = l.add(binary.LittleEndian.Uint64(b))
		l = l.add(binary.LittleEndian.Uint64(b[8:]))
		l = l.add(binary.LittleEndian.Uint64(b[16:]))
		l = l.add(binary.LittleEndian.Uint64(b[24:]))
	}
	for ; len(b) >= 8; b = b[8:] {
		l = l.add(binary.LittleEndian.Uint64(b))
	}
	s.first += across(l.evens) + across(l.odds)
	s.second += 8*(across(l.earlierEvens)+across(l.earlierOdds)) + l.weighed()
}

// lanes are sums of the bytes at even and at odd places of each eight, and of what those were
// before each eight: four each, of 16 bits.
type lanes struct{ evens, odds, earlierEvens, earlierOdds uint64 }

func (l lanes) add(x uint64) lanes {
	l.earlierEvens += l.evens
	l.earlierOdds += l.odds
	l.evens += x & even
	l.odds += x >> 8 & even
	return l
}

// weighed is the sum of all lanes, each times how many bytes of its eight come from its place on.
func (l lanes) weighed() uint64 {
	const lane = 0xffff
	e, o := l.evens, l.odds
	return 8*(e&lane) + 7*(o&lane) + 6*(e>>16&lane) + 5*(o>>16&lane) +
		4*(e>>32&lane) + 3*(o>>32&lane) + 2*(e>>48) + o>>48
}

// across adds the four lanes.
func across(lanes uint64) uint64 {
	const halves = 0x0000ffff0000ffff
	two := lanes&halves + lanes>>16&halves
	return two&0xffffffff + two>>32
}
