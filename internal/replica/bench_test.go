package replica_test

import (
	"testing"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// counted are clients whose replies are counted, and nothing else.
type counted struct {
	connected, replies int
	code               zk.Code
}

func (c *counted) Connected(session.ConnID, *wire.ConnectResponse) { c.connected++ }
func (c *counted) Reached(session.ConnID)                          {}
func (c *counted) Notify([]session.ConnID, *zk.Event)              {}
func (c *counted) Notified()                                       {}
func (c *counted) Close(session.ConnID)                            {}
func (c *counted) Reply(_ session.ConnID, h wire.ReplyHeader, _ *zk.Result) {
	c.replies++
	if h.Code != zk.OK {
		c.code = h.Code
	}
}

// An alone is a standalone server whose disk does everything at once, with eight clients that
// write.
type alone struct {
	replica *replica.Replica
	now     replica.Now
	seen    counted
	events  []replica.Event
}

const (
	writers = 8
	batch   = 64
)

func newAlone(t testing.TB) *alone {
	now := replica.Now{MonoMs: 1_000_000, WallMs: 1_700_000_000_000}
	a := &alone{now: now, events: make([]replica.Event, batch), replica: replica.New(replica.Options{
		Zab:      zab.Options{ID: 1, TickMs: 1000, InitMs: 5000, SyncMs: 3000},
		Election: fle.Config{ResendMinMs: 200, ResendMaxMs: 2000}, SessionMinMs: 2000, SessionMaxMs: 20000,
	}, nil, replica.Recovered{State: replica.NewState(true)}, now)}
	a.step()
	for id := range session.ConnID(writers) {
		a.step(replica.Event{Kind: replica.EventConnect, Conn: id + 1, Connect: &wire.ConnectRequest{TimeoutMs: 10_000}})
	}
	if a.seen.connected != writers {
		t.Fatalf("%d sessions", a.seen.connected)
	}
	return a
}

// step steps the replica until the disk has nothing to do.
func (a *alone) step(events ...replica.Event) {
	for {
		disk := a.replica.Step(a.now, events, &a.seen).Disk
		if len(disk) == 0 {
			return
		}
		events = append(a.events[:0], replica.Event{Kind: replica.EventDone, Ticket: disk[len(disk)-1].Ticket})
	}
}

// write makes the clients set the same znode, 64 times in a step, and answers them.
func (a *alone) write(requests []zk.Request) {
	events := a.events[:batch]
	for i := range requests {
		requests[i] = zk.Request{Op: zk.OpSetData, Xid: zk.Xid(i), Path: "/", Data: requests[i].Data, Version: -1}
		events[i] = replica.Event{Kind: replica.EventRequest, Conn: session.ConnID(i%writers + 1), Request: &requests[i]}
	}
	a.step(events...)
}

func newRequests() []zk.Request {
	requests := make([]zk.Request, batch)
	for i := range requests {
		requests[i].Data = make([]byte, 100)
	}
	return requests
}

// A write allocates its record, which stays in the history, and a step allocates the list of
// operations for the disk.
func TestAWriteAllocatesItsRecordAlone(t *testing.T) {
	a, requests := newAlone(t), newRequests()
	if got := testing.AllocsPerRun(100, func() { a.write(requests) }); got > batch+10 {
		t.Errorf("%v allocations of %d writes", got, batch)
	}
	if a.seen.code != zk.OK || a.seen.replies != 101*batch {
		t.Errorf("%d replies, %v", a.seen.replies, a.seen.code)
	}
}

// A leader fetches ahead for what it decides, and not for what it applies.
func TestALeaderFetchesForWhatItDecides(t *testing.T) {
	a, requests := newAlone(t), newRequests()
	before := a.replica.Fetched()
	a.write(requests)
	if got := a.replica.Fetched() - before; got != batch {
		t.Errorf("for %d of %d writes", got, batch)
	}
}

func BenchmarkWrites(b *testing.B) {
	a, requests := newAlone(b), newRequests()
	b.ReportAllocs()
	for b.Loop() {
		a.write(requests)
	}
	if a.seen.code != zk.OK || a.seen.replies != batch*b.N {
		b.Fatalf("%d replies to %d writes, %v", a.seen.replies, batch*b.N, a.seen.code)
	}
}
