package txnlog

import (
	"encoding/binary"

	"github.com/conclave-project/conclave/internal/adler"
	"github.com/conclave-project/conclave/zk"
)

// The layout of a segment (as ZooKeeper 3.4 and later write it), big endian:
//
//	 0  int32  magic "ZKLG"
//	 4  int32  version 2
//	 8  int64  the zxid of the record before the first, or of the snapshot: only Conclave
//	           writes it. 0 is not known. ZooKeeper calls it dbid, writes 0 and ignores it.
//	16  records, one after the other
//	..  zeros up to the allocated end
//
// and of a record:
//
//	 0  int64  Adler-32 of the payload
//	 8  int32  length of the payload
//	12  payload: transaction header (32 bytes, zxid at 12), body, digest
//	..  byte   0x42
const (
	segmentMagic      = 0x5a4b4c47
	segmentVersion    = 2
	segmentHeadBytes  = 16
	predecessorOffset = 8
	recordHeadBytes   = 12
	recordFrameBytes  = recordHeadBytes + 1
	recordTrailer     = 0x42
	payloadZxidOffset = 12
	payloadOpOffset   = 28
	payloadBytesMin   = 32 // the transaction header
)

// PayloadBytesMax is the default limit of one payload: jute.maxbuffer and
// jute.maxbuffer.extrasize of ZooKeeper at their defaults.
const PayloadBytesMax = 0xfffff + 0xfffff

func segmentHead() []byte {
	head := make([]byte, 0, segmentHeadBytes)
	head = binary.BigEndian.AppendUint32(head, segmentMagic)
	head = binary.BigEndian.AppendUint32(head, segmentVersion)
	return binary.BigEndian.AppendUint64(head, 0)
}

// appendRecord appends payload, with its frame, to buffer.
func appendRecord(buffer, payload []byte) []byte {
	buffer = binary.BigEndian.AppendUint64(buffer, uint64(adler.Checksum(payload)))
	buffer = binary.BigEndian.AppendUint32(buffer, uint32(len(payload)))
	buffer = append(buffer, payload...)
	return append(buffer, recordTrailer)
}

// payloadZxid reads the zxid of a payload of at least payloadBytesMin bytes.
func payloadZxid(payload []byte) zk.Zxid {
	return zk.Zxid(binary.BigEndian.Uint64(payload[payloadZxidOffset:]))
}

// refusal reports whether a payload is that of a refused request. Apache's server logs a
// request that it cannot decode under the zxid of the transaction before, with which it has
// nothing to do (PrepRequestProcessor), and skips it when it reads a log (LearnerHandler).
func refusal(payload []byte) bool {
	return int32(binary.BigEndian.Uint32(payload[payloadOpOffset:])) == int32(zk.OpError)
}

// Follows reports whether next may come directly after last in a history without a gap: it is
// the next number, or the first of a later epoch. Only Apache's server counts on from the last
// counter of an epoch to 0 of the next. A negative last means "not known": everything follows
// it.
func Follows(last, next zk.Zxid) bool {
	switch {
	case next <= 0:
		return false
	case last < 0:
		return true
	case next == last+1:
		return true
	}
	return next.Epoch() > last.Epoch() && next.Counter() == 1
}
