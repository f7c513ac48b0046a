package server

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// tracing returns a tracer of all writes, with a clock and spans that the test controls.
func tracing(ratio float64) (t *tracer, now *time.Time, spans *[]Span) {
	now, spans = new(time.Time), new([]Span)
	*now = time.Unix(1_700_000_000, 0)
	c := Config{Wall: func() time.Time { return *now }, Trace: TraceConfig{Ratio: ratio, Sink: func(s Span) { *spans = append(*spans, s) }}}
	c.ID = 2
	return newTracer(&c), now, spans
}

func set(xid zk.Xid) *zk.Request { return &zk.Request{Op: zk.OpSetData, Xid: xid, Path: "/a"} }

func TestNothingIsTracedUnlessAsked(t *testing.T) {
	if c := Default(); newTracer(&c) != nil {
		t.Error("a server traces by itself")
	}
	c := Default()
	c.Trace.Sink = func(Span) {}
	if newTracer(&c) != nil {
		t.Error("a ratio of 0 traces")
	}
	tr, _, _ := tracing(0.5)
	if n := testing.AllocsPerRun(100, func() {
		tr.begin()
		tr.step(1, nil)
		tr.flushed()
		tr.reply(1, 1, 1, zk.OK)
	}); n != 0 {
		t.Errorf("%v allocations where nothing is on its way", n)
	}
	followed := 0
	for xid := range int32(10_000) {
		if tr.follows(request{0x100000000000001, xid + 1}) {
			followed++
		}
	}
	if followed < 4800 || followed > 5200 || tr.follows(request{1, 0}) || tr.follows(request{1, -2}) {
		t.Errorf("%d of 10,000 are traced by half", followed)
	}
}

// The number of traced requests is limited, and those that come to no end make space.
func TestRequestsWithoutAnEndAreForgotten(t *testing.T) {
	tr, now, spans := tracing(1)
	for xid := range zk.Xid(tracedMax + 100) {
		tr.came(1, set(xid+1))
	}
	if n := tr.under.Load(); n != tracedMax {
		t.Errorf("%d are followed", n)
	}
	*now = now.Add(tracedTime + time.Second)
	tr.came(1, set(10_000))
	if n := tr.under.Load(); n != 1 {
		t.Errorf("%d are followed", n)
	}
	tr.reply(1, 10_000, 7, zk.OK)
	tr.flushed()
	if len(*spans) != 2 || tr.under.Load() != 0 || (*spans)[1].Name != SpanRequest || (*spans)[1].Zxid != 7 {
		t.Errorf("%+v", *spans)
	}
	tr.came(1, &zk.Request{Op: zk.OpGetData, Xid: 1, Path: "/a"}) // a read is not traced
	if tr.under.Load() != 0 {
		t.Error("a read is followed")
	}
}

// A follower may apply a transaction before its own disk has it; a follower whose role ends
// forgets what was on its way.
func TestTransactionIsTracedWhenItIsOnDiskAndApplied(t *testing.T) {
	record := func(n uint32) replica.DiskOp {
		h := zk.TxnHeader{Session: 1, Cxid: int32(n), Zxid: zk.MakeZxid(1, n), Op: zk.OpSetData}
		payload := txn.Append(nil, &h, &zk.Txn{Op: zk.OpSetData, Path: "/a"}, zk.Digest{})
		return replica.DiskOp{Kind: replica.DiskAppend, Zxid: h.Zxid, Payload: payload}
	}
	tr, now, spans := tracing(1)
	tr.begin()
	ops := []replica.DiskOp{record(1), record(2), record(3)}
	tr.append(ops, false)
	*now = now.Add(time.Millisecond)
	tr.begin()
	*now = now.Add(time.Millisecond)
	tr.step(ops[1].Zxid, nil)
	if len(*spans) != 0 {
		t.Errorf("%+v", *spans)
	}
	*now = now.Add(time.Millisecond)
	tr.durable([]diskWork{{DiskOp: ops[0]}})
	if len(*spans) != 2 || (*spans)[0].Name != SpanLog || (*spans)[1].Name != SpanApply || (*spans)[0].Cxid != 1 ||
		(*spans)[0].EndNano-(*spans)[0].StartNano != 3e6 || (*spans)[1].EndNano-(*spans)[1].StartNano != 1e6 || (*spans)[0].Parent != (*spans)[1].Parent {
		t.Errorf("%+v", *spans)
	}
	tr.step(ops[1].Zxid, make([]zab.Reason, 1))
	if n := tr.under.Load(); n != 0 {
		t.Errorf("%d are followed after the role has ended", n)
	}
}
