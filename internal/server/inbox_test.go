package server

import (
	"testing"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
)

// A step takes what has waited longest, no more than it may cost, and says when that came
// and when the rest did.
func TestStepTakesNoMoreThanItMayCost(t *testing.T) {
	nowMs := int64(100)
	var b inbox
	b.init(func() int64 { return nowMs })
	long := func(c session.ConnID) replica.Event {
		return replica.Event{Kind: replica.EventRequest, Conn: c, Body: make([]byte, stepCostMax/2)}
	}
	b.put(long(1), long(2), long(3))
	nowMs = 200
	b.put(replica.Event{Kind: replica.EventTick, Conn: 4})
	want := func(conns []session.ConnID, arrivedMs, waitsMs int64) {
		t.Helper()
		<-b.ready
		got := b.take()
		for i, e := range got.events {
			if i >= len(conns) || e.Conn != conns[i] {
				t.Fatalf("event %d is of %d, want %v", i, e.Conn, conns)
			}
		}
		if len(got.events) != len(conns) || got.arrivedMs != arrivedMs || got.waitsMs != waitsMs {
			t.Fatalf("%d events of %d ms, and %d ms waits; want %v, %d, %d", len(got.events), got.arrivedMs, got.waitsMs, conns, arrivedMs, waitsMs)
		}
	}
	want([]session.ConnID{1, 2}, 100, 100)
	nowMs = 300
	b.put(long(5), long(6), long(7))
	want([]session.ConnID{3, 4}, 100, 0)
	want([]session.ConnID{5, 6}, 300, 300)
	want([]session.ConnID{7}, 300, 0)
	huge := long(8)
	huge.Body = make([]byte, 3*stepCostMax)
	b.put(huge, long(9))
	want([]session.ConnID{8}, 300, 300)
	want([]session.ConnID{9}, 300, 0)
	if got := b.take(); len(got.events) != 0 || got.arrivedMs != 0 {
		t.Errorf("an empty inbox gives %v", got)
	}
}
