package server

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/zk"
)

// A long request is decoded into many times its bytes, and takes the loop long. What all
// connections together have of them, decoded and not answered, is bounded by a budget.
// A connection that wants more waits its turn, and reads nothing more meanwhile.
const (
	requestLong      = 16 << 10 // bytes of a request from which it counts
	requestBudgetMax = 64 << 20 // of memory; half as many bytes of requests, or half a second of the loop
	partsFactor      = 24       // what a request of many parts takes for each of its bytes
)

// costOfRequest returns about what a request takes in memory, 0 if it is short.
func costOfRequest(op zk.Op, bytes int) int64 {
	if bytes < requestLong {
		return 0
	}
	return min(memoryOf(op, bytes), requestBudgetMax)
}

// costOfShort returns about what a short request takes in memory, 0 if it is long.
func costOfShort(op zk.Op, bytes int) int64 {
	if bytes < requestLong {
		return memoryOf(op, bytes)
	}
	return 0
}

func memoryOf(op zk.Op, bytes int) int64 {
	switch op {
	case zk.OpMulti, zk.OpMultiRead, zk.OpSetWatches, zk.OpSetWatches2:
		return int64(bytes) * partsFactor
	}
	return 2 * int64(bytes)
}

// budget is given out in the order in which it was asked for.
type budget struct {
	mu struct {
		sync.Mutex
		left    int64
		waiting []*turn
	}
}

// turn is somebody who waits.
type turn struct {
	cost  int64
	given chan struct{} // closed when it is
}

func (b *budget) init(most int64) { b.mu.left = most }

// ask takes a part, or waits for it: then the channel is closed when it is given.
func (b *budget) ask(cost int64) *turn {
	t := &turn{cost: cost, given: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.waiting = append(b.mu.waiting, t)
	b.give()
	return t
}

// release returns a part.
func (b *budget) release(cost int64) {
	if cost == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.left += cost
	b.give()
}

// give gives to those who have waited longest. Called with mu held.
func (b *budget) give() {
	for len(b.mu.waiting) > 0 && b.mu.waiting[0].cost <= b.mu.left {
		t := b.mu.waiting[0]
		b.mu.waiting[0] = nil
		b.mu.waiting = b.mu.waiting[1:]
		b.mu.left -= t.cost
		close(t.given)
	}
}

// abandon ends the wait, whether it was given meanwhile or not.
func (b *budget) abandon(t *turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, one := range b.mu.waiting {
		if one == t {
			b.mu.waiting = append(b.mu.waiting[:i], b.mu.waiting[i+1:]...)
			b.give() // those behind may be shorter
			return
		}
	}
	b.mu.left += t.cost
	b.give()
}

// A long answer takes some times its bytes while it is made, before it is counted with
// what its connection does not read, and a processor. What all connections together are
// making is bounded, so that memory is left, and half of the processors for all others.
const (
	answerLong      = 1 << 20  // weight of an answer from which it counts
	answerBudgetMax = 64 << 20 // of memory
	answerFactor    = 2        // what an answer takes for each of its bytes
)

// costOfAnswer returns about what the making of an answer takes in memory, 0 if it is short,
// and at least its part of the budget where each processor that may make some has one.
func costOfAnswer(weight int) int64 {
	if weight < answerLong {
		return 0
	}
	part := answerBudgetMax / int64(max(1, runtime.GOMAXPROCS(0)/2))
	return min(max(answerFactor*int64(weight), part), answerBudgetMax)
}

// admit waits until a budget has a part for a long request or answer. What was gathered
// goes to the loop before, so that nobody waits for somebody who waits; the client is alive
// meanwhile, and the loop is told so. It is false if the connection has ended: the loop may
// drop it while it waits, and then answers none of its requests, whose parts others need.
func (h *handling) admit(b *budget, cost int64) bool {
	if cost == 0 {
		return true
	}
	s := h.conn.server
	t := b.ask(cost)
	select {
	case <-t.given:
		return true
	default:
	}
	h.unlock()
	h.waits++
	for {
		h.nowMs = s.monoMs()
		h.submit()
		again := s.cfg.Clock.Timer(clock.FromMillis(h.nowMs + replica.TouchIntervalMs(s.cfg.TickTime.Milliseconds())))
		select {
		case <-t.given:
			again.Stop()
			h.look()
			return true
		case <-again.C():
		case <-h.conn.answers():
			again.Stop()
			if h.conn.out.isEnded() {
				h.conn.resume() // for those that wait after this
				b.abandon(t)
				return false
			}
		case <-s.done.Done():
			again.Stop()
			b.abandon(t)
			return false
		}
	}
}

// longs are the requests of a connection that the loop has and that hold a part of some
// limit: the long ones, and all where a throttle is on. Replies come in the
// order of the requests, so that a request is known by its number on the connection.
type longs struct {
	count atomic.Int32
	mu    struct {
		sync.Mutex
		all []long
	}
}

type long struct {
	number uint64
	cost   int64 // of Server.requests
	large  int64 // of Server.largeBytes
	slot   bool  // one of Server.slots
}

// hold keeps the part of a request until the loop has answered it.
func (c *conn) hold(one long) {
	l := c.longs.Load()
	if l == nil {
		l = &longs{}
		c.longs.Store(l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.all = append(l.mu.all, one)
	l.count.Add(1)
}

// answered releases the parts of the requests up to a number. There may be none yet.
func (l *longs) answered(number uint64, s *Server) {
	if l == nil || l.count.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.mu.all) > 0 && l.mu.all[0].number <= number {
		s.release(&l.mu.all[0])
		l.mu.all = l.mu.all[1:]
		l.count.Add(-1)
	}
}

// release returns what a request has held.
func (s *Server) release(held *long) {
	s.requests.release(held.cost)
	if held.large > 0 {
		s.largeBytes.Add(-held.large)
	}
	if held.slot {
		s.slots.release(1)
	}
}
