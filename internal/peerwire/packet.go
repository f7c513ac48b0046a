package peerwire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// A packet of the quorum port has no length in front:
//
//	int32   type
//	int64   zxid
//	buffer  data     -1 is null
//	vector  auth     -1 is null; each a ustring scheme and a ustring id
const packetHead = 16 // up to the data

// DataBytesMax is the longest data of a packet with Apache's defaults:
// jute.maxbuffer, and the same number of bytes again for what a server adds to
// a request (ZOOKEEPER-3496).
const DataBytesMax = 2 * 0xfffff

// AuthBytesMax is the longest list of identities of one packet.
const AuthBytesMax = 1 << 20

// ErrPacket is the class of bytes that cannot be a packet. The caller closes
// the connection, because the start of the next packet is unknown.
var ErrPacket = errors.New("peerwire: bad packet")

// Packet is a unit of bytes between a learner and its leader.
type Packet struct {
	Type int32
	Zxid zk.Zxid
	Data []byte        // nil is null, which is not the same as empty
	Auth []zk.Identity // nil is null
}

// AppendPacket appends a packet.
func AppendPacket(b []byte, p *Packet) []byte {
	b = appendHead(b, p.Type, p.Zxid)
	b = jute.AppendBytes(b, p.Data)
	return appendAuth(b, p.Auth)
}

func appendHead(b []byte, kind int32, zxid zk.Zxid) []byte {
	return jute.AppendLong(jute.AppendInt(b, kind), int64(zxid))
}

func appendAuth(b []byte, auth []zk.Identity) []byte {
	if auth == nil {
		return jute.AppendInt(b, -1)
	}
	b = jute.AppendInt(b, int32(len(auth)))
	for _, who := range auth {
		b = jute.AppendString(jute.AppendString(b, who.Scheme), who.ID)
	}
	return b
}

// PacketBytes returns the length of the first packet of b. While whole is
// false, it needs at least n bytes to say more, where n > len(b) and n is at
// most a few bytes more than dataMax + AuthBytesMax.
func PacketBytes(b []byte, dataMax int) (n int, whole bool, err error) {
	return new(PacketScan).Bytes(b, dataMax)
}

// PacketScan looks for the end of one packet that arrives piece by piece. It never
// scans a byte twice, because a packet may have a hundred thousand texts and arrive
// byte by byte.
type PacketScan struct {
	auth  int // where the identities begin; 0: not known yet
	at    int // where the next text begins
	texts int // still to come
}

// Bytes does the same as PacketBytes. b is the packet of the previous call with
// more bytes at its end. A scan must not be used after it found the end or an
// error.
func (s *PacketScan) Bytes(b []byte, dataMax int) (n int, whole bool, err error) {
	if s.auth == 0 {
		at, ok, err := skipBuffer(b, packetHead-4, dataMax)
		if err != nil || !ok {
			return at, false, err
		}
		if len(b) < at+4 {
			return at + 4, false, nil
		}
		count := int(int32(binary.BigEndian.Uint32(b[at:])))
		if count < -1 || count > AuthBytesMax/8 {
			return 0, false, fmt.Errorf("%w: %d identities", ErrPacket, count)
		}
		s.auth, s.at, s.texts = at, at+4, 2*max(0, count)
	}
	for ; s.texts > 0; s.texts-- {
		end, ok, err := skipBuffer(b, s.at, AuthBytesMax)
		if err != nil || !ok {
			return end, false, err
		}
		if end-s.auth > AuthBytesMax {
			return 0, false, fmt.Errorf("%w: identities above the limit of %d bytes", ErrPacket, AuthBytesMax)
		}
		s.at = end
	}
	return s.at, true, nil
}

// skipBuffer returns the end of the buffer whose length is at b[at]. It returns
// false if b is too short to tell or to contain the buffer; then the result is
// how many bytes are needed.
func skipBuffer(b []byte, at, bytesMax int) (int, bool, error) {
	if len(b) < at+4 {
		return at + 4, false, nil
	}
	length := int(int32(binary.BigEndian.Uint32(b[at:])))
	if length < -1 || length > bytesMax {
		return 0, false, fmt.Errorf("%w: length %d, limit %d (jute.maxbuffer)", ErrPacket, length, bytesMax)
	}
	end := at + 4 + max(0, length)
	return end, len(b) >= end, nil
}

// DecodePacket reads a whole packet, no more and no less.
func DecodePacket(b []byte, dataMax int) (Packet, error) {
	d := jute.NewDecoder(b, dataMax)
	p := Packet{Type: d.Int(), Zxid: zk.Zxid(d.Long()), Data: d.Bytes()}
	count := d.Count(8)
	if count >= 0 {
		p.Auth = make([]zk.Identity, 0, min(count, 16))
	}
	for range count {
		p.Auth = append(p.Auth, zk.Identity{Scheme: d.String(), ID: d.String()})
		if d.Err() != nil {
			break
		}
	}
	if d.Err() == nil && d.Len() > 0 {
		d.Fail(fmt.Errorf("%d bytes after it", d.Len()))
	}
	if err := d.Err(); err != nil {
		return Packet{}, fmt.Errorf("%w: %w", ErrPacket, err)
	}
	return p, nil
}
