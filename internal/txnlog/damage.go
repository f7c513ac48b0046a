package txnlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/adler"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// When a record is not whole, there are two possible explanations.
//
// Torn: the machine stopped before the record was synced. Nobody was told that it is safe, so
// it is truncated. A write that was interrupted by the end of a process stops at some byte; a
// power loss keeps any subset of the sectors of a write. In both cases what is missing reads as
// zero, because a segment is new and its space was zero, or because the file ends there.
//
// Corrupt: a bit changed later. The record may have been acknowledged, so truncating it, and
// everything after it, would lose data silently.
//
// A record is judged torn when one of these explains it:
//
//	zeros    nothing but zeros follows: this is in fact the clean end
//	sector   a whole sector within the record is zero, nothing says that the
//	         record was synced (mark.go), and what follows is near enough to
//	         have been unsynced with it (txnlog-L5)
//	stop     the file, or all that is not zero in it, stops inside the record:
//	         also in a copy that was taken while the server ran, whatever the
//	         mark beside it says
//
// A record whose only fault is its length looks like the last two. So a torn record must not be
// whole under another length after which the segment ends or the next record begins. Everything
// else is corrupt. (Protocol-aware recovery, FAST '18, calls this disentangling; ZooKeeper
// treats every broken length as torn.)
//
// Clients choose what is in a record, byte for byte. So the only thing that counts here is the
// checksum of the whole: what looks like a record inside another record is data.

// judge handles a broken record at the front of the window, of which at most extent bytes are
// there: it ends the segment at the record, or returns an error.
func (r *Reader) judge(extent int, found string) error {
	offset := r.offset
	rest, err := r.readRest()
	if err != nil {
		return err
	}
	if rest.stop == 0 {
		return nil // zeros
	}
	stops := rest.stop < int64(max(extent, recordHeadBytes))
	lost := r.lostSector(rest, extent)
	if lost {
		synced, err := r.wasSynced(offset)
		if err != nil {
			return err
		}
		lost = !synced
	}
	if !lost && !stops || extent > recordHeadBytes && r.wholeOtherwise(rest) {
		return r.corrupt(offset, "a whole record", found)
	}
	err = r.endTorn(offset, found)
	r.torn.sector = r.torn.sector || lost
	return err
}

// wasSynced reports whether the record at an offset of the segment was certainly synced.
func (r *Reader) wasSynced(offset int64) (bool, error) {
	mark, err := readMark(r.fs, r.dir)
	first, _ := ParseSegmentName(filepath.Base(r.name))
	return first == mark.segment && offset < mark.end, err
}

// judgeHead handles a segment whose head is wrong: it ends the segment before its beginning, or
// returns an error. A crash explains a segment that stops inside the head. It also explains one
// whose first sector is all zero, if nothing says that records after it were synced.
func (r *Reader) judgeHead() error {
	rest, err := r.readRest()
	if err != nil {
		return err
	}
	if bytes.HasPrefix(segmentHead(), rest.head[:min(rest.stop, predecessorOffset)]) {
		return r.endTorn(0, "zeros in the head")
	}
	lost := rest.stop <= r.reach() && isZero(rest.head[:min(len(rest.head), vfs.SectorBytes)])
	if lost {
		synced, err := r.wasSynced(segmentHeadBytes)
		if err != nil {
			return err
		}
		lost = !synced
	}
	if !lost {
		return r.corrupt(0, fmt.Sprintf("magic %08x version %d", segmentMagic, segmentVersion),
			fmt.Sprintf("magic %08x version %d", binary.BigEndian.Uint32(r.window), binary.BigEndian.Uint32(r.window[4:])))
	}
	err = r.endTorn(0, "zeros in the head")
	r.torn.sector = true
	return err
}

// endTorn records a torn end and moves to the next segment. The zxid that comes next decides
// whether the log may go on after it.
func (r *Reader) endTorn(offset int64, found string) error {
	torn := &Torn{File: r.name, Offset: offset, Found: found}
	if r.pending { // ZooKeeper's servers do not truncate torn ends, and each crash may leave one
		torn.before, torn.sector = r.torn, r.torn.sector
	}
	r.torn, r.pending = torn, true
	return r.closeFile()
}

// remainder is the content of a segment from a broken record on.
type remainder struct {
	head []byte // at least the size of the largest record and its frame, or everything
	stop int64  // end of the last byte that is not zero, counted from the start of head
}

// readRest reads to the end of the segment, but keeps only the start.
func (r *Reader) readRest() (remainder, error) {
	keep := r.options.PayloadBytesMax + recordFrameBytes + vfs.SectorBytes
	if err := r.fill(keep); err != nil {
		return remainder{}, err
	}
	rest := remainder{head: r.window, stop: int64(len(withoutZeros(r.window)))}
	position := int64(len(r.window))
	portion := make([]byte, min(readBytes, max(r.size-r.offset-position, vfs.SectorBytes)))
	for {
		n, err := r.file.Read(portion)
		if stop := len(withoutZeros(portion[:n])); stop > 0 {
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

// reach is how far after a torn record a crash can have left bytes that are not zero
// (txnlog-L5).
func (r *Reader) reach() int64 { return r.options.unsyncedMax() }

// checksumBytes is the size of a record's checksum.
const checksumBytes = 8

// lostSector reports whether a sector that the record reaches into is zero from the record on,
// with something after it, so that a crash explains the damage. The first bytes of a checksum
// are zero in every record. So a sector that ends within the checksum proves nothing by itself.
// It does if the rest of the record is whole except for the part of the checksum in that
// sector.
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
			return true
		}
		start = end
	}
	return false
}

// checksumCut reports whether a record is whole except for the first n bytes of its checksum,
// which are zero and should not be.
func checksumCut(record []byte, n int) bool {
	if len(record) < recordFrameBytes || record[len(record)-1] != recordTrailer {
		return false
	}
	have, want := binary.BigEndian.Uint64(record), uint64(adler.Checksum(record[recordHeadBytes:len(record)-1]))
	return have != want && have == want<<(8*n)>>(8*n)
}

// wholeOtherwise reports whether the broken record is whole under another length. For that to
// happen by chance, or because a client intended it, both a checksum and what follows must fit.
func (r *Reader) wholeOtherwise(rest remainder) bool {
	if len(rest.head) < recordHeadBytes+payloadBytesMin {
		return false
	}
	checksum := binary.BigEndian.Uint64(rest.head)
	payload := rest.head[recordHeadBytes:min(len(rest.head), recordFrameBytes+r.options.PayloadBytesMax)]
	const modulus = 65521
	sum, sums := uint32(1), uint32(0) // Adler-32 of what comes before c
	for i, c := range payload {
		if c == recordTrailer && i >= payloadBytesMin && checksum == uint64(sums)<<16|uint64(sum) &&
			rest.endsOrGoesOn(recordFrameBytes+i, payloadZxid(payload)) {
			return true
		}
		if sum += uint32(c); sum >= modulus {
			sum -= modulus
		}
		if sums += sum; sums >= modulus {
			sums -= modulus
		}
	}
	return false
}

// endsOrGoesOn reports whether a record with zxid may end at a place: only zeros follow, or the
// head of a record that follows it.
func (rest remainder) endsOrGoesOn(at int, zxid zk.Zxid) bool {
	if int64(at) == rest.stop {
		return true
	}
	next := rest.head[min(at, len(rest.head)):]
	return len(next) >= recordHeadBytes+payloadBytesMin &&
		binary.BigEndian.Uint64(next)>>32 == 0 && Follows(zxid, payloadZxid(next[recordHeadBytes:]))
}
