// Package adler computes Adler-32 (RFC 1950, section 8.2), the checksum of each transaction
// and each snapshot in ZooKeeper's files.
//
// It gives the same results as hash/adler32 in half the time. The standard library
// works byte by byte, and took a third of the time of a snapshot. What always
// holds:
//
//	adler-A1  A sum equals that of hash/adler32, however the bytes are split into parts.
package adler

import "encoding/binary"

const (
	// modulus is the largest prime below 65536.
	modulus = 65521
	// groupBytes is how many bytes are summed in 16-bit lanes. Another eight bytes of 255
	// could overflow a lane.
	groupBytes = 23 * 8
	// reduceBytes is how many bytes are summed before both sums are reduced. The sums could
	// hold far more.
	reduceBytes = 1 << 20
	// even selects the bytes at even places, each with 16 bits.
	even = 0x00ff00ff00ff00ff
)

// Begin is the checksum of no bytes.
const Begin uint32 = 1

// Checksum returns the checksum of b.
func Checksum(b []byte) uint32 { return Update(Begin, b) }

// Update returns the checksum of the bytes with checksum sum followed by b.
func Update(sum uint32, b []byte) uint32 {
	s := sums{uint64(sum & 0xffff), uint64(sum >> 16)}
	for len(b) > reduceBytes {
		s.add(b[:reduceBytes])
		b = b[reduceBytes:]
	}
	s.add(b)
	return uint32(s.second<<16 | s.first)
}

// sums are the two sums of the RFC: the sum of the bytes, and the sum of the values of the first
// sum after each byte.
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

// group adds eight bytes at a time. In the second sum a byte counts as many times as there
// are bytes from it to the end: eight times for each later group of eight, and according to
// its place in its own eight.
func (s *sums) group(b []byte) {
	var l lanes
	s.second += uint64(len(b)) * s.first
	for ; len(b) >= 32; b = b[32:] { // four at a time, for one length check
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

// lanes are the sums of the bytes at even and odd places of each eight, and the sums of their
// values before each eight. Each has four lanes of 16 bits.
type lanes struct{ evens, odds, earlierEvens, earlierOdds uint64 }

func (l lanes) add(x uint64) lanes {
	l.earlierEvens += l.evens
	l.earlierOdds += l.odds
	l.evens += x & even
	l.odds += x >> 8 & even
	return l
}

// weighed returns the sum of all lanes, each multiplied by the number of bytes from its place to
// the end of its eight.
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
