package replica

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// Nothing of a long answer is kept when the next one is made: a client that sets many watches
// again behind a sync makes the loop produce as many events.
func TestLastAnswerKeepsLittle(t *testing.T) {
	s := newScript(t)
	s.command([]string{"connect", "1"})
	s.step()
	s.command([]string{"sync"})
	s.step()
	watches := &zk.SetWatches{}
	for i := range 50_000 {
		watches.Data = append(watches.Data, fmt.Sprintf("/%05d", i))
	}
	s.batch = append(s.batch, Event{Kind: EventRequest, Conn: 1, Request: &zk.Request{Op: zk.OpSetWatches, Xid: -8, SetWatches: watches}})
	s.step()
	if n := cap(s.replica.answered.Events); n > 1000 {
		t.Errorf("space for %d events is kept", n)
	}
	for _, e := range s.replica.answered.Events[:cap(s.replica.answered.Events)] {
		if e != (zk.Event{}) {
			t.Fatalf("an event is kept: %+v", e)
		}
	}
}

// The space of requests that were answered does not keep any of them: each may have a megabyte.
func TestSpaceOfParkedRequestsHoldsNone(t *testing.T) {
	var q requests
	many := make([]parked, 0, 2*spareLeast)
	for range cap(many) {
		many = append(many, parked{request: &zk.Request{}, body: make([]byte, 10)})
	}
	q.reuse(many)
	if len(q.spare) != 1 {
		t.Fatalf("%d spaces are kept", len(q.spare))
	}
	for _, p := range q.spare[0][:len(many)] {
		if p.request != nil || p.body != nil {
			t.Fatal("a request that was answered is kept")
		}
	}
	for range spareMax + 10 {
		q.reuse(make([]parked, spareLeast))
	}
	if len(q.spare) != spareMax {
		t.Errorf("%d spaces are kept", len(q.spare))
	}
}
