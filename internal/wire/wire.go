// Package wire encodes and decodes what travels on the client port: frames, the
// handshake, requests, replies and notifications, in both directions.
//
// It converts between byte slices and values of package zk. The server decodes
// requests and appends replies; the client library appends requests and decodes
// replies. What always holds:
//
//	wire-W1  Nothing here panics or takes memory beyond a small multiple of its
//	         input.
//	wire-W2  Decoded strings and byte slices alias the input. A caller that
//	         keeps a value longer than the frame keeps the frame, or copies the
//	         value.
//	wire-W3  Append functions write whole frames, length prefix included.
//
// The package does not read sockets and decides nothing: to it a path is just a
// string, and its caller checks whether the path is valid.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/conclave-project/conclave/internal/jute"
)

// FrameBytesMax is ZooKeeper's default for the longest frame a peer accepts
// (jute.maxbuffer). A frame of exactly this many bytes passes.
const FrameBytesMax = 0xfffff

// PrefixBytes is the size of the length in front of each frame.
const PrefixBytes = 4

// ErrFrame is the class of invalid frames: the length is negative or above the
// limit.
var ErrFrame = errors.New("wire: bad frame length")

// FrameLength reads the length of the frame whose prefix starts b, and checks
// it against bytesMax. b has at least PrefixBytes bytes.
func FrameLength(b []byte, bytesMax int) (int, error) {
	n := int(int32(binary.BigEndian.Uint32(b)))
	if n < 0 || n > bytesMax {
		return 0, fmt.Errorf("%w: %d, limit %d (jute.maxbuffer)", ErrFrame, n, bytesMax)
	}
	return n, nil
}

// beginFrame appends space for a length and returns where the frame starts.
func beginFrame(b []byte) ([]byte, int) {
	return append(b, 0, 0, 0, 0), len(b)
}

// endFrame writes the length of the frame that starts at start.
func endFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-PrefixBytes))
	return b
}

// alias returns b as a string without copying it (wire-W2). Decoding is the hottest
// code of a server, and most znode paths are only looked up, never kept.
func alias(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// path reads a path, which must not be null.
func path(d *jute.Decoder) string {
	b := d.Bytes()
	if b == nil {
		d.Fail(errNullPath)
	}
	return alias(b)
}

var errNullPath = errors.New("wire: path is null")

// text reads a string in which null means the same as empty.
func text(d *jute.Decoder) string { return alias(d.Bytes()) }

// paths reads a vector of paths. Neither the vector nor any path may be null.
func paths(d *jute.Decoder) []string {
	n := d.Count(4)
	if n < 0 {
		d.Fail(errors.New("wire: list of paths is null"))
		return nil
	}
	out := make([]string, 0, n)
	for range n {
		out = append(out, path(d))
		if d.Err() != nil {
			return nil
		}
	}
	return out
}
