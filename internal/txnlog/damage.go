package txnlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"io"

	"github.com/conclave-project/conclave/internal/vfs"
)

// When a record is not whole, two stories are possible.
//
// Torn: the machine stopped before the record was synced. Nobody was told that
// it is safe, so it is truncated. A write that was cut by the end of a process
// stops at a byte; a power loss keeps any subset of the sectors of a write. In
// both cases what is missing reads as zero, because a segment is new and its
// space was zero, or the file ends there.
//
// Corrupt: a bit changed later. The record may have been acknowledged, so
// cutting it, and all that stands after it, would lose data in silence.
//
// A record is judged torn when one of these explains it:
//
//	zeros    nothing but zeros follows: the clean end, in fact
//	sector   a whole sector within the record is zero, and what follows is
//	         near enough to have been unsynced with it (txnlog-L5)
//	stop     the file, or all that is not zero in it, stops inside the record
//
// For the last, a record in truth whole but with a changed length looks alike.
// So no whole record may stand further on, and no other length may make this
// one whole. Everything else is corrupt. (Protocol-aware recovery, FAST '18,
// calls this disentangling; ZooKeeper takes every broken length for torn.)

// judge ends the segment at the record at the front of the window, of which at
// most extent bytes are there, or refuses it.
func (r *Reader) judge(extent int, found string) error {
	offset := r.offset
	rest, err := r.readRest()
	if err != nil {
		return err
	}
	switch {
	case rest.stop == 0:
		return nil // zeros
	case r.lostSector(rest, extent):
		err := r.endTorn(offset, found)
		r.torn.sector = true
		return err
	case extent > recordHeadBytes && rest.stop < int64(extent) && !r.wholeRecordIn(rest.head):
		return r.endTorn(offset, found)
	case extent <= recordHeadBytes && rest.stop < recordHeadBytes:
		return r.endTorn(offset, found)
	}
	return r.corrupt(offset, "a whole record", found)
}

// headLost reports whether a crash explains a wrong head: its whole sector is
// zero, or the segment stops inside the head.
func (r *Reader) headLost(rest remainder) bool {
	if rest.stop <= r.reach() && isZero(rest.head[:min(len(rest.head), vfs.SectorBytes)]) {
		return true
	}
	return rest.stop < segmentHeadBytes && bytes.HasPrefix(segmentHead(), rest.head[:rest.stop])
}

// endTorn notes a torn end and moves to the next segment. Whether the log may
// go on after it is decided by the zxid that comes next.
func (r *Reader) endTorn(offset int64, found string) error {
	r.torn = &Torn{File: r.name, Offset: offset, Found: found}
	r.pending = true
	return r.closeFile()
}

// remainder is what stands in a segment from a broken record on.
type remainder struct {
	head []byte // at least the largest record and what precedes it, or all
	stop int64  // after the last byte that is not zero, from the start of head
}

// readRest reads to the end of the segment, keeping only the start.
func (r *Reader) readRest() (remainder, error) {
	keep := r.options.PayloadBytesMax + recordFrameBytes + vfs.SectorBytes
	if err := r.fill(keep); err != nil {
		return remainder{}, err
	}
	rest := remainder{head: r.window, stop: int64(lastNonZero(r.window))}
	position := int64(len(r.window))
	portion := make([]byte, readBytes)
	for {
		n, err := r.file.Read(portion)
		if stop := lastNonZero(portion[:n]); stop > 0 {
			rest.stop = position + int64(stop)
		}
		position += int64(n)
		if err == io.EOF {
			return rest, nil
		}
		if err != nil {
			return remainder{}, fmt.Errorf("read transaction log: %w", err)
		}
	}
}

// lastNonZero is the length of p without its trailing zeros.
func lastNonZero(p []byte) int {
	for len(p) > 0 && p[len(p)-1] == 0 {
		p = p[:len(p)-1]
	}
	return len(p)
}

// reach is how far after a torn record a crash can have left other bytes (txnlog-L5).
func (r *Reader) reach() int64 {
	return int64(unsyncedBytesMax + r.options.PayloadBytesMax + recordFrameBytes)
}

// checksumBytes is how much of a record its checksum takes.
const checksumBytes = 8

// lostSector reports whether a sector that the record reaches into is zero from
// the record on, with something after it, so that a crash explains the damage.
// A whole record between the two shows that the sector belongs to another one
// and that the length is wrong.
// The first bytes of a checksum are zero in every record: a sector that ends
// among them, or after them in the checksum, shows nothing by itself. It does if
// the rest of the record is whole but for what the sector had of the checksum.
func (r *Reader) lostSector(rest remainder, extent int) bool {
	if rest.stop > r.reach() {
		return false
	}
	start := 0
	for start < extent {
		end := start + vfs.SectorBytes - int((r.offset+int64(start))%vfs.SectorBytes)
		if int64(end) > rest.stop || end > len(rest.head) {
			return false
		}
		if isZero(rest.head[start:end]) && (end >= checksumBytes || checksumCut(rest.head[:min(extent, len(rest.head))], end)) {
			return !r.wholeRecordIn(rest.head[:start])
		}
		start = end
	}
	return false
}

// checksumCut reports whether a record is whole but for the first n bytes of its
// checksum, which are zero and should not be.
func checksumCut(record []byte, n int) bool {
	if len(record) < recordFrameBytes || record[len(record)-1] != recordTrailer {
		return false
	}
	have, want := binary.BigEndian.Uint64(record), uint64(adler32.Checksum(record[recordHeadBytes:len(record)-1]))
	return have != want && have == want<<(8*n)>>(8*n)
}

// wholeRecordIn reports whether the broken record is whole under another length,
// or another whole record of this history stands after it.
func (r *Reader) wholeRecordIn(head []byte) bool {
	if len(head) < recordHeadBytes {
		return false
	}
	stop := lastNonZero(head)
	if stop < recordFrameBytes {
		return false
	}
	if length := stop - recordFrameBytes; length >= payloadBytesMin && head[stop-1] == recordTrailer {
		checksum := binary.BigEndian.Uint64(head)
		if checksum == uint64(adler32.Checksum(head[recordHeadBytes:stop-1])) {
			return true
		}
	}
	for at := 1; at+recordFrameBytes+payloadBytesMin <= stop; at++ {
		if r.wholeRecordAt(head[at:stop]) {
			return true
		}
	}
	return false
}

func (r *Reader) wholeRecordAt(p []byte) bool {
	checksum := binary.BigEndian.Uint64(p)
	length := int(int32(binary.BigEndian.Uint32(p[8:])))
	if checksum>>32 != 0 || length < payloadBytesMin || length > len(p)-recordFrameBytes {
		return false
	}
	if p[recordHeadBytes+length] != recordTrailer {
		return false
	}
	payload := p[recordHeadBytes : recordHeadBytes+length]
	return payloadZxid(payload) > r.lowest && checksum == uint64(adler32.Checksum(payload))
}
