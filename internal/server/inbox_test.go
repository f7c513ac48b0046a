package server

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/zab"
)

// A step takes the events that have waited longest, no more than it may cost, and reports when
// those arrived and when the rest did.
func TestStepTakesNoMoreThanItMayCost(t *testing.T) {
	nowMs := int64(100)
	var b inbox
	b.init(func() int64 { return nowMs })
	long := func(c session.ConnID) replica.Event {
		return replica.Event{Kind: replica.EventRequest, Conn: c, Body: make([]byte, stepCostMax/2)}
	}
	b.put(long(1), long(2), long(3))
	nowMs = 200
	b.put(replica.Event{Kind: replica.EventRequest, Conn: 4})
	want := func(conns []session.ConnID, waitsMs int64) {
		t.Helper()
		<-b.ready
		got := b.take()
		for i, e := range got.events {
			if i >= len(conns) || e.Conn != conns[i] {
				t.Fatalf("event %d is of %d, want %v", i, e.Conn, conns)
			}
		}
		if len(got.events) != len(conns) || got.arrivedMs != 0 || got.waitsMs != waitsMs || got.aheadMs != 0 {
			t.Fatalf("%d events, %+v; want %v, and %d ms waits", len(got.events), got, conns, waitsMs)
		}
	}
	want([]session.ConnID{1, 2}, 100)
	nowMs = 300
	b.put(long(5), long(6), long(7))
	want([]session.ConnID{3, 4}, 300)
	want([]session.ConnID{5, 6}, 300)
	want([]session.ConnID{7}, 0)
	huge := long(8)
	huge.Body = make([]byte, 3*stepCostMax)
	b.put(huge, long(9))
	want([]session.ConnID{8}, 300)
	want([]session.ConnID{9}, 0)
	if got := b.take(); len(got.events) != 0 || got.arrivedMs != 0 {
		t.Errorf("an empty inbox gives %v", got)
	}
}

// Events from other servers, the disk, the clock and clients that want a session overtake the
// requests that wait, each kind in its order, and take half of a step from them.
func TestRequestsAreNotInTheWayOfAllElse(t *testing.T) {
	const backlog, fits = 10_000, stepCostMax / eventBytes
	nowMs := int64(100)
	var b inbox
	b.init(func() int64 { return nowMs })
	var requests []replica.Event
	for i := range backlog {
		requests = append(requests, replica.Event{Kind: replica.EventRequest, Conn: session.ConnID(i)})
	}
	b.put(requests...)
	if n := len(b.take().events); n != fits {
		t.Fatalf("a step takes %d requests, want %d", n, fits)
	}
	nowMs = 200
	b.put(replica.Event{Kind: replica.EventDisconnect, Conn: backlog}) // is no request, and overtakes none
	b.put(replica.Event{Kind: replica.EventConnect, Conn: backlog + 1})
	for i := range backlog {
		b.put(replica.Event{Kind: replica.EventMessage, Link: 1, Ticket: zab.Ticket(i)})
	}
	got := b.take()
	if e := got.events[0]; e.Kind != replica.EventConnect || got.arrivedMs != 200 || got.waitsMs != 100 || got.aheadMs != 200 {
		t.Fatalf("the first is %d, what came at %d ms is taken, and at %d ms waits", e.Kind, got.arrivedMs, got.waitsMs)
	}
	messages, asked, most := 0, fits, 0
	for all := got.events[1:]; len(all) > 0; all = b.take().events {
		before := asked
		for _, e := range all {
			switch {
			case e.Kind == replica.EventMessage && e.Ticket == zab.Ticket(messages):
				messages++
			case e.Kind != replica.EventMessage && e.Conn == session.ConnID(asked):
				asked++
			default:
				t.Fatalf("an event of kind %d after %d messages and %d requests is of %d, %d", e.Kind, messages, asked, e.Conn, e.Ticket)
			}
		}
		if most = max(most, len(all)); messages < backlog && asked == before {
			t.Fatal("a step takes no request")
		}
	}
	if messages != backlog || asked != backlog+1 || most > fits+1 {
		t.Errorf("%d messages and %d requests have come, %d in one step", messages, asked, most)
	}
}

// If more arrives than is taken, for hours, what counts is when the events that wait now have
// arrived. Otherwise nobody would be silent all the while, and no session would end.
func TestServerThatIsAlwaysBehindKnowsByHowMuch(t *testing.T) {
	const fits, stepMs = stepCostMax / eventBytes, 10
	nowMs := int64(100)
	var b inbox
	b.init(func() int64 { return nowMs })
	var came []int64 // when each waiting event has arrived
	put := func(n int) {
		b.put(slices.Repeat([]replica.Event{{Kind: replica.EventMessage, Link: 1}}, n)...)
		came = append(came, slices.Repeat([]int64{nowMs}, n)...)
	}
	put(5 * fits / 2)
	for step := range 1000 {
		nowMs += stepMs
		got := b.take()
		if n := len(got.events); n < fits || got.arrivedMs > came[0] || got.arrivedMs < came[0]-3*stepMs {
			t.Fatalf("step %d takes %d, of which the first is said to have come at %d ms, and came at %d", step, n, got.arrivedMs, came[0])
		}
		came = came[len(got.events):]
		if got.waitsMs != got.aheadMs || got.aheadMs > came[0] || got.aheadMs < came[0]-3*stepMs {
			t.Fatalf("step %d: what waits is said to have come at %d and %d ms, and came at %d", step, got.waitsMs, got.aheadMs, came[0])
		}
		put(len(got.events))
	}
}
