package server

import (
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/replica"
)

// inbox gathers events for the loop. It needs no limit of its own: what a connection may have
// on its way is limited where it reads (conn.go), and so is what other servers send
// (peerinbox.go).
//
// There are two lanes, each in order: one for requests of clients, and one for everything else,
// which overtakes them: handshakes and heartbeats, and the events of other servers, the disk
// and the clock. While requests wait, half of each step is for them.
//
// The loop takes only as much at a time as one step may cost: some dozens of long requests in
// one step would keep it from sending pings to the other servers.
type inbox struct {
	now func() int64 // milliseconds
	mu  struct {
		sync.Mutex
		events  []replica.Event
		firstMs int64 // when the first of them arrived

		first  []replica.Event // the lane that overtakes
		cameMs int64           // the first of them arrived no sooner
	}
	ready chan struct{} // holds a token while there are events

	// The following fields belong to the loop.
	taken   []replica.Event // taken from mu.events at one time; what is left begins at next
	next    int
	takenMs int64 // when the first of them arrived
	costMax int   // of the next step

	// cameMs applies to the first noted events of mu.first; those after them arrived no sooner
	// than restMs.
	noted  int
	restMs int64
}

func (b *inbox) init(now func() int64) {
	b.now, b.ready, b.costMax = now, make(chan struct{}, 1), stepCostMax
}

// put adds events of one lane, in order.
func (b *inbox) put(events ...replica.Event) {
	if len(events) == 0 {
		return
	}
	b.mu.Lock()
	lane, ms := &b.mu.first, &b.mu.cameMs
	if events[0].Kind.OfRequests() {
		lane, ms = &b.mu.events, &b.mu.firstMs
	}
	if len(*lane) == 0 {
		*ms = b.now()
	}
	*lane = append(*lane, events...)
	b.mu.Unlock()
	b.wake()
}

func (b *inbox) wake() {
	select {
	case b.ready <- struct{}{}:
	default: // the loop has been notified already
	}
}

// batch is what one step takes.
type batch struct {
	events    []replica.Event
	arrivedMs int64 // when the first of the overtaking events arrived; 0: there is none
	waitsMs   int64 // when the first event arrived that waits for the next step; 0: none
	aheadMs   int64 // the same for the overtaking events
}

// take returns the overtaking events, then the requests that have waited longest, as many as
// one step may cost, but at least one if there is any. They are valid until the next call.
func (b *inbox) take() batch {
	if b.next == len(b.taken) {
		clear(b.taken)
		b.taken, b.next = b.taken[:0], 0
	}
	b.mu.Lock()
	if len(b.taken) == 0 {
		b.taken, b.mu.events = b.mu.events, b.taken
		b.takenMs = b.mu.firstMs
	}
	var out batch
	if len(b.mu.first) > 0 {
		out.arrivedMs = b.mu.cameMs
	}
	passed := b.pass()
	if len(b.mu.events) > 0 {
		out.waitsMs = b.mu.firstMs
	}
	if len(b.mu.first) > 0 {
		out.aheadMs = b.mu.cameMs
		out.waitsMs = earliest(out.waitsMs, b.mu.cameMs)
	}
	more := len(b.mu.events)+len(b.mu.first) > 0
	b.mu.Unlock()
	from, cost := b.next, 0
	for b.next < len(b.taken) && (cost < b.costMax || b.next <= from+passed) {
		cost += costOf(&b.taken[b.next])
		b.next++
	}
	out.events = b.taken[from:b.next:b.next]
	if b.next < len(b.taken) {
		out.waitsMs = earliest(out.waitsMs, b.takenMs)
	}
	if more || b.next < len(b.taken) { // the token has been taken
		b.wake()
	}
	return out
}

// took is told how long a step took. The next steps take less after one that took an eighth of
// a tick, and more after one that did not: the cost of an event, such as the end of a session,
// is known only afterwards.
func (b *inbox) took(d, tick time.Duration) {
	if d >= tick/8 && d > 0 {
		b.costMax = max(b.costMax/16, 1)
	} else {
		b.costMax = min(2*b.costMax, stepCostMax)
	}
}

// pass inserts overtaking events before the remaining requests: as many as a step may cost, or
// half of that if there are requests. It returns their number. It is called with mu held.
func (b *inbox) pass() (n int) {
	most := b.costMax
	if b.next < len(b.taken) {
		most = max(most/2, 1)
	} else {
		b.takenMs = 0
	}
	all := b.mu.first
	for cost := 0; n < len(all) && cost < most; n++ {
		cost += costOf(&all[n])
	}
	if n == 0 {
		return 0
	}
	b.taken = slices.Insert(b.taken, b.next, all[:n]...)
	b.takenMs = earliest(b.takenMs, b.mu.cameMs)
	clear(all[:n])
	if b.mu.first = all[n:]; len(b.mu.first) == 0 {
		b.mu.first = all[:0]
	}
	if b.noted -= n; b.noted <= 0 { // cameMs is advanced here, because the lane may not be empty for hours
		b.mu.cameMs, b.restMs, b.noted = max(b.mu.cameMs, b.restMs), b.now(), len(b.mu.first)
	}
	return n
}

// stepCostMax bounds a step: some thousand times the cost of a short request.
const stepCostMax = 512 << 10

// costOf returns the approximate cost of an event for the loop, in bytes of requests: the cost
// of deciding or applying grows with these bytes, and with the records that a COMMIT covers.
func costOf(e *replica.Event) int {
	n := eventBytes*max(1, int(e.Spans)) + len(e.Body) + identityBytes(e.Identities)
	if e.Message != nil {
		n += int(messageBytes(e.Message))
	}
	return n
}
