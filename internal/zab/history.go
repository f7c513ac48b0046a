package zab

import (
	"slices"
	"sort"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/zk"
)

// history is the newest part of the log, in memory. It is used to synchronize learners that
// were away for a short time, and it holds what is not committed yet.
type history struct {
	records []Record // in zxid order, without a gap
	last    zk.Zxid  // of the whole log, even if records is empty
	bytes   int64    // of all payloads
}

func newHistory(recent []Record, last zk.Zxid) history {
	h := history{records: slices.Clone(recent), last: last}
	h.bytes = payloadBytes(h.records)
	return h
}

func payloadBytes(records []Record) int64 {
	n := int64(0)
	for i := range records {
		n += int64(len(records[i].Payload))
	}
	return n
}

// follows reports whether a transaction may come directly after another one in a log: it is the
// next of the same epoch, or the first of a later epoch. Java accepts any counter with a later
// epoch, but no leader sends one.
func follows(last, next zk.Zxid) bool {
	if next.Epoch() == last.Epoch() {
		return next == last+1
	}
	return next > last && next.Counter() == 1
}

// epochMax is the last epoch that a zxid can carry: peers compare zxids as
// signed numbers.
const epochMax = 0x7fffffff

// append adds a record after the last one (zab-Z4).
func (h *history) append(r Record) {
	invariant.Check(follows(h.last, r.Zxid), "zab: the log gets a gap (zab-Z4)")
	h.records = append(h.records, r)
	h.last = r.Zxid
	h.bytes += int64(len(r.Payload))
}

// after returns the records after zxid.
func (h *history) after(zxid zk.Zxid) []Record { return h.records[h.indexAfter(zxid):] }

// upTo returns the records up to zxid.
func (h *history) upTo(zxid zk.Zxid) []Record { return h.records[:h.indexAfter(zxid)] }

func (h *history) indexAfter(zxid zk.Zxid) int {
	return sort.Search(len(h.records), func(i int) bool { return h.records[i].Zxid > zxid })
}

// truncate drops everything after zxid, which is in the log.
func (h *history) truncate(zxid zk.Zxid) {
	n := h.indexAfter(zxid)
	h.bytes -= payloadBytes(h.records[n:])
	clear(h.records[n:])
	h.records, h.last = h.records[:n], zxid
}

// reset starts an empty history after a snapshot.
func (h *history) reset(zxid zk.Zxid) { h.records, h.last, h.bytes = nil, zxid, 0 }

// trim drops the oldest records beyond the limits, but none after keep. It waits until the
// history is twice as long as a limit, so that the copying costs little.
func (h *history) trim(limit int, bytesMax int64, keep zk.Zxid) {
	if len(h.records) < 2*limit && h.bytes < 2*bytesMax {
		return
	}
	last := h.indexAfter(keep)
	n, rest := 0, h.bytes
	for n < last && (len(h.records)-n > limit || rest > bytesMax) {
		rest -= int64(len(h.records[n].Payload))
		n++
	}
	if n > 0 {
		h.records, h.bytes = slices.Delete(h.records, 0, n), rest
	}
}
