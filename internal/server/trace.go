package server

import (
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// TraceConfig has the settings for tracing writes through the ensemble.
type TraceConfig struct {
	// Ratio is the share of all writes that is traced, 0 to 1. All servers of an ensemble need
	// the same value, because each determines by itself which writes those are.
	Ratio float64
	// Sink receives the spans that have ended, and must not block. Nil: nothing is traced.
	Sink func(Span)
	// Report returns what has become of the spans, for Status; nil for nothing.
	Report func() TraceReport
}

// TraceReport is how many spans have been sent since the start, and how many were lost.
type TraceReport struct{ Sent, Lost int64 }

// Span is one part of the way of one write. Its ids are derived from the session and the number
// of the request in it, so servers agree on them without communicating.
type Span struct {
	Trace              [2]uint64
	ID, Parent         uint64 // Parent is 0 for the request itself
	Name               string
	StartNano, EndNano int64 // since the Unix epoch
	Server             quorum.ID
	Session            zk.SessionID
	Cxid               int32
	Zxid               zk.Zxid // 0 if it is not known
	Op                 zk.Op   // Op, Path and Code are set for the request itself
	Path               string
	Code               zk.Code
}

// The names of spans.
const (
	SpanRequest = "conclave.request" // from its arrival at the client's server to the reply
	SpanPropose = "conclave.propose" // at the leader, child of the request: from its arrival there until it is applied
	SpanQuorum  = "conclave.quorum"  // at the leader, child of the proposal: from the proposal until a quorum has it
	SpanLog     = "conclave.log"     // at every server, child of the proposal: until its record is on disk
	SpanApply   = "conclave.apply"   // at every server, child of the proposal: the step in which it is applied
	SpanReply   = "conclave.reply"   // at the client's server, child of the request: from the answer until it is written
)

// tracer follows the traced writes through this server. If tracing is off, the only cost is a
// check for nil. Any goroutine may call its methods.
type tracer struct {
	sink  func(Span)
	limit uint64 // a request is traced if its number is not above this
	id    quorum.ID
	wall  func() time.Time

	under atomic.Int64 // how many writes are being followed
	mu    struct {
		sync.Mutex
		requests map[request]*traced
		logged   map[zk.Zxid]*traced
	}

	// The following fields belong to the loop.
	stepNano int64     // when the loop's step began
	replied  []*traced // answered in this step
}

// request identifies a write.
type request struct {
	session zk.SessionID
	cxid    int32
}

// traced is a request of this server, or a transaction.
type traced struct {
	request
	op                      zk.Op
	path                    string
	code                    zk.Code
	zxid                    zk.Zxid
	came, answered          int64 // set for a request
	began, appended         int64 // set for a transaction
	durable, reached, ended int64
	leads                   bool
}

// tracedMax is how many requests, and how many transactions, are followed at a time. One that
// never ends, such as that of a client that is gone, is forgotten after tracedTime if there is
// no other space.
const (
	tracedMax  = 4096
	tracedTime = time.Minute
	tracedPath = 1 << 10 // how many bytes of a path are kept
)

// newTracer returns nil if nothing is to be traced.
func newTracer(c *Config) *tracer {
	if c.Trace.Sink == nil || c.Trace.Ratio <= 0 {
		return nil
	}
	t := &tracer{sink: c.Trace.Sink, limit: math.MaxUint64, id: c.ID, wall: c.Wall}
	if c.Trace.Ratio < 1 {
		t.limit = uint64(c.Trace.Ratio * math.MaxUint64)
	}
	t.mu.requests, t.mu.logged = map[request]*traced{}, map[zk.Zxid]*traced{}
	return t
}

// mix spreads a number over all 64 bits.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

func (r request) number() uint64 { return mix(uint64(r.session) ^ mix(uint64(r.cxid)+1)) }

// follows reports whether a request is traced. Requests that servers make themselves are not.
func (t *tracer) follows(r request) bool { return r.cxid > 0 && r.number() <= t.limit }

// trace and span return the ids of a trace and of its spans. The id of a span depends on its
// name and, for spans that each server has, on the server.
func (r request) trace() [2]uint64 {
	n := r.number()
	return [2]uint64{mix(n + 1), mix(n + 2)}
}

func (r request) span(name string, of quorum.ID) uint64 {
	n := r.number()
	for i := range len(name) {
		n = mix(n + uint64(name[i]))
	}
	return max(1, mix(n+uint64(of)))
}

// came begins the span of a request that a client has sent.
func (t *tracer) came(session zk.SessionID, r *zk.Request) {
	key := request{session, int32(r.Xid)}
	if !t.follows(key) || !r.Op.IsWrite() {
		return
	}
	now := t.wall().UnixNano()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.requests) >= tracedMax {
		t.forgetOld(now)
	}
	if len(t.mu.requests) < tracedMax {
		t.mu.requests[key] = &traced{request: key, op: r.Op, path: strings.Clone(r.Path[:min(len(r.Path), tracedPath)]), came: now}
		t.count()
	}
}

// begin records that a step of the loop begins.
func (t *tracer) begin() { t.stepNano = t.wall().UnixNano() }

// headOf returns the request to which a record of the log belongs: a transaction begins with
// it.
func headOf(payload []byte) (r request, ok bool) {
	if len(payload) < 12 {
		return r, false
	}
	return request{zk.SessionID(binary.BigEndian.Uint64(payload)), int32(binary.BigEndian.Uint32(payload[8:]))}, true
}

// append records which records go to the disk. The loop calls it, in the step in which they
// were proposed, or came from the leader.
func (t *tracer) append(ops []replica.DiskOp, leads bool) {
	var now int64
	for i := range ops {
		op := &ops[i]
		if op.Kind != replica.DiskAppend {
			continue
		}
		key, ok := headOf(op.Payload)
		if !ok || !t.follows(key) {
			continue
		}
		if now == 0 {
			now = t.wall().UnixNano()
		}
		t.mu.Lock()
		if len(t.mu.logged) >= tracedMax {
			t.forgetOld(now)
		}
		if len(t.mu.logged) < tracedMax {
			t.mu.logged[op.Zxid] = &traced{request: key, zxid: op.Zxid, leads: leads, began: t.stepNano, appended: now}
			t.count()
		}
		t.mu.Unlock()
	}
}

// durable records that records are on disk. The disk's goroutine calls it.
func (t *tracer) durable(ops []diskWork) {
	if t.under.Load() == 0 {
		return
	}
	now := t.wall().UnixNano()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range ops {
		if one := t.mu.logged[ops[i].Zxid]; one != nil && ops[i].Kind == replica.DiskAppend {
			one.durable = now
			t.end(one)
		}
	}
}

// step records what a step of the loop has applied, and forgets what was on its way in a role
// that has ended.
func (t *tracer) step(applied zk.Zxid, left []zab.Reason) {
	if t.under.Load() == 0 {
		return
	}
	now := t.wall().UnixNano()
	t.mu.Lock()
	defer t.mu.Unlock()
	for zxid, one := range t.mu.logged {
		if zxid <= applied && one.reached == 0 {
			one.reached, one.ended = t.stepNano, now
			t.end(one)
		}
	}
	if len(left) > 0 {
		clear(t.mu.logged)
		t.count()
	}
}

// end sends the spans of a transaction that is on disk and applied here. A follower may learn
// that it is committed before its own disk has it. It is called with mu held.
func (t *tracer) end(one *traced) {
	if one.durable == 0 || one.ended == 0 {
		return
	}
	delete(t.mu.logged, one.zxid)
	t.count()
	proposal := one.span(SpanPropose, 0)
	if one.leads {
		t.send(one, SpanPropose, proposal, one.span(SpanRequest, 0), one.began, one.ended)
		t.send(one, SpanQuorum, one.span(SpanQuorum, 0), proposal, one.appended, max(one.appended, one.reached))
	}
	t.send(one, SpanLog, one.span(SpanLog, t.id), proposal, one.appended, one.durable)
	t.send(one, SpanApply, one.span(SpanApply, t.id), proposal, one.reached, one.ended)
}

// reply records that the answer to a request is in the outbox. The loop calls it.
func (t *tracer) reply(session zk.SessionID, xid zk.Xid, zxid zk.Zxid, code zk.Code) {
	key := request{session, int32(xid)}
	if t.under.Load() == 0 || !t.follows(key) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.mu.requests[key]; one != nil {
		delete(t.mu.requests, key)
		t.count()
		one.answered, one.zxid, one.code = t.wall().UnixNano(), zxid, code
		t.replied = append(t.replied, one)
	}
}

// flushed records that the answers of this step were written, or given to a writer. The loop
// calls it.
func (t *tracer) flushed() {
	if len(t.replied) == 0 {
		return
	}
	now := t.wall().UnixNano()
	for _, one := range t.replied {
		root := one.span(SpanRequest, 0)
		t.send(one, SpanReply, one.span(SpanReply, 0), root, one.answered, now)
		t.send(one, SpanRequest, root, 0, one.came, now)
	}
	clear(t.replied)
	t.replied = t.replied[:0]
}

func (t *tracer) send(one *traced, name string, id, parent uint64, start, end int64) {
	s := Span{
		Trace: one.trace(), ID: id, Parent: parent, Name: name, StartNano: start, EndNano: end,
		Server: t.id, Session: one.session, Cxid: one.cxid, Zxid: one.zxid,
	}
	if name == SpanRequest {
		s.Op, s.Path, s.Code = one.op, one.path, one.code
	}
	t.sink(s)
}

// forgetOld makes space. It is called with mu held.
func (t *tracer) forgetOld(now int64) {
	old := now - tracedTime.Nanoseconds()
	for key, one := range t.mu.requests {
		if one.came < old {
			delete(t.mu.requests, key)
		}
	}
	for zxid, one := range t.mu.logged {
		if one.appended < old {
			delete(t.mu.logged, zxid)
		}
	}
	t.count()
}

// count is called with mu held.
func (t *tracer) count() { t.under.Store(int64(len(t.mu.requests) + len(t.mu.logged))) }
