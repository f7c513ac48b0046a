package server

import (
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/replica"
)

// inbox gathers events for the loop. It needs no limit of its own: what a
// connection may have on its way is limited where it reads (conn.go), and what
// other servers send likewise (peerinbox.go).
//
// There are two lanes, each in order: requests of clients, and all else, which passes them:
// handshakes and heartbeats, what other servers, the disk and the clock say. Where requests
// wait, half of a step is theirs.
//
// The loop takes only as much at a time as one step may cost: some dozens of long
// requests in one step would keep it from sending pings to the other servers.
type inbox struct {
	now func() int64 // milliseconds
	mu  struct {
		sync.Mutex
		events  []replica.Event
		firstMs int64 // when the first of them came

		first  []replica.Event // of the lane that passes
		cameMs int64           // the first of them came no sooner
	}
	ready chan struct{} // holds a token while there are events

	// Of the loop:
	taken   []replica.Event // from mu.events at one time, and left from next on
	next    int
	takenMs int64 // when the first of them came
	costMax int   // of the next step

	// cameMs is of so many of mu.first; what is behind them came no sooner than restMs.
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
	default: // the loop knows already
	}
}

// batch is what one step takes.
type batch struct {
	events    []replica.Event
	arrivedMs int64 // when the first of those came that pass the requests; 0: there is none
	waitsMs   int64 // when the first of those came that wait for the next step; 0: none
	aheadMs   int64 // the same, of those that pass the requests
}

// take returns what passes, then the requests that have waited longest, as many as one step
// may cost, and one at least if there is any. They are valid until the next call.
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
	if more || b.next < len(b.taken) { // the token is taken
		b.wake()
	}
	return out
}

// took is told how long a step took, and has the next ones take less after one that took an
// eighth of a tick, and more after one that did not: what an event costs is known afterwards
// alone, as that of a session's end.
func (b *inbox) took(d, tick time.Duration) {
	if d >= tick/8 && d > 0 {
		b.costMax = max(b.costMax/16, 1)
	} else {
		b.costMax = min(2*b.costMax, stepCostMax)
	}
}

// pass puts what passes before the requests that were taken and are left: as much as a step
// may cost, or half of that where there are some. It returns how many events that are.
// Called with mu held.
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
	if b.noted -= n; b.noted <= 0 { // the lane may not be empty for hours
		b.mu.cameMs, b.restMs, b.noted = max(b.mu.cameMs, b.restMs), b.now(), len(b.mu.first)
	}
	return n
}

// stepCostMax bounds a step: some thousand times what a short request costs.
const stepCostMax = 512 << 10

// costOf returns about what an event costs the loop, in bytes of requests: what is
// decided or applied grows with them, and with the records that a COMMIT stands for.
func costOf(e *replica.Event) int {
	n := eventBytes*max(1, int(e.Spans)) + len(e.Body) + identityBytes(e.Identities)
	if e.Message != nil {
		n += int(messageBytes(e.Message))
	}
	return n
}
