package server

import (
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/replica"
)

// inbox gathers events for the loop. It needs no limit of its own: what a
// connection may have on its way is limited where it reads (conn.go), and what
// other servers send likewise (peerinbox.go).
//
// The loop takes only as much at a time as one step may cost: some dozens of long
// requests in one step would keep it from sending pings to the other servers.
type inbox struct {
	now func() int64 // milliseconds
	mu  struct {
		sync.Mutex
		events  []replica.Event
		firstMs int64 // when the first of them came
	}
	ready chan struct{} // holds a token while there are events

	// Of the loop:
	taken   []replica.Event // from mu.events at one time, and left from next on
	next    int
	takenMs int64 // when the first of them came
	costMax int   // of the next step
}

func (b *inbox) init(now func() int64) {
	b.now, b.ready, b.costMax = now, make(chan struct{}, 1), stepCostMax
}

// put adds events, in order.
func (b *inbox) put(events ...replica.Event) {
	b.mu.Lock()
	if len(b.mu.events) == 0 {
		b.mu.firstMs = b.now()
	}
	b.mu.events = append(b.mu.events, events...)
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
	arrivedMs int64 // when the first of them came
	waitsMs   int64 // when the first of those came that wait for the next step; 0: none
}

// take returns the events that have waited longest, as many as one step may cost, and
// one at least if there is any. They are valid until the next call.
func (b *inbox) take() batch {
	whole := b.next == len(b.taken)
	if whole {
		spare := b.taken[:0]
		clear(b.taken)
		b.mu.Lock()
		b.taken, b.mu.events = b.mu.events, spare
		b.takenMs = b.mu.firstMs
		b.mu.Unlock()
		b.next = 0
	}
	from, cost := b.next, 0
	for b.next < len(b.taken) && (cost < b.costMax || b.next == from) {
		cost += costOf(&b.taken[b.next])
		b.next++
	}
	out := batch{events: b.taken[from:b.next:b.next]}
	if len(out.events) > 0 {
		out.arrivedMs = b.takenMs
	}
	if b.next < len(b.taken) {
		out.waitsMs = b.takenMs
	}
	if b.next < len(b.taken) || !whole { // others may have come since, and their token is taken
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

// stepCostMax bounds a step: some thousand times what a short request costs.
const stepCostMax = 512 << 10

// costOf returns about what an event costs the loop, in bytes of requests: what is
// decided or applied grows with them.
func costOf(e *replica.Event) int {
	n := eventBytes + len(e.Body) + identityBytes(e.Identities)
	if e.Message != nil {
		n += int(messageBytes(e.Message))
	}
	return n
}
