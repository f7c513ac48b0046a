package server

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/zk"
)

// A long request needs many times its size in memory when it is decoded, and takes the loop
// long. A budget bounds the long requests of all connections that are decoded and not answered.
// A connection that wants more waits for its turn, and reads nothing meanwhile.
const (
	requestLong      = 16 << 10 // size from which a request counts as long, in bytes
	requestBudgetMax = 64 << 20 // bytes of memory; corresponds to half as many bytes of requests, or half a second of the loop
	partsFactor      = 24       // memory for each byte of a request with many parts
)

// costOfRequest returns the approximate memory of a long request; 0 for a short one.
func costOfRequest(op zk.Op, bytes int) int64 {
	if bytes < requestLong {
		return 0
	}
	return min(memoryOf(op, bytes), requestBudgetMax)
}

// costOfShort returns the approximate memory of a short request; 0 for a long one.
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

// budget grants parts in the order in which they were asked for.
type budget struct {
	mu struct {
		sync.Mutex
		left    int64
		waiting []*turn
	}
}

// turn is a request for a part of the budget.
type turn struct {
	cost  int64
	given chan struct{} // closed when the part is granted
}

func (b *budget) init(most int64) { b.mu.left = most }

// ask asks for a part, which is granted at once or later: then the channel is closed.
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

// give grants parts to those who have waited longest. It is called with mu held.
func (b *budget) give() {
	for len(b.mu.waiting) > 0 && b.mu.waiting[0].cost <= b.mu.left {
		t := b.mu.waiting[0]
		b.mu.waiting[0] = nil
		b.mu.waiting = b.mu.waiting[1:]
		b.mu.left -= t.cost
		close(t.given)
	}
}

// abandon ends a wait, whether the part has been granted meanwhile or not.
func (b *budget) abandon(t *turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, one := range b.mu.waiting {
		if one == t {
			b.mu.waiting = append(b.mu.waiting[:i], b.mu.waiting[i+1:]...)
			b.give() // later ones may need less
			return
		}
	}
	b.mu.left += t.cost
	b.give()
}

// A long answer needs several times its size in memory while it is made, before it is counted
// with what its connection does not read, and it occupies a processor. A budget bounds the
// answers that all connections are making, so that memory remains, and half of the processors
// for everything else.
const (
	answerLong      = 1 << 20  // weight from which an answer counts as long
	answerBudgetMax = 64 << 20 // bytes of memory
	answerFactor    = 2        // memory for each byte of an answer
)

// costOfAnswer returns the approximate memory needed to make an answer; 0 for a short one. For
// a long one it is at least the share of one of the processors that may make long answers.
func costOfAnswer(weight int) int64 {
	if weight < answerLong {
		return 0
	}
	part := answerBudgetMax / int64(max(1, runtime.GOMAXPROCS(0)/2))
	return min(max(answerFactor*int64(weight), part), answerBudgetMax)
}

// admit waits until a budget grants a part for a long request or answer. Before it waits it
// gives the gathered requests to the loop, so that no waiting connection holds up another one.
// While it waits the client counts as alive, and the loop is told so. It returns false if the
// connection has ended: the loop may drop the connection meanwhile, and then answers none of
// its requests, whose parts others need.
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
				h.conn.resume() // for others that wait after this
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

// longs are the requests of a connection that the loop has and that occupy a part of some
// limit: the long ones, and all requests if a throttle is on. Replies come in the order of the
// requests, so a request is identified by its number on the connection.
type longs struct {
	count atomic.Int32
	mu    struct {
		sync.Mutex
		all []long
	}
}

type long struct {
	number uint64
	cost   int64 // part of Server.requests
	large  int64 // part of Server.largeBytes
	slot   bool  // whether it has one of Server.slots
}

// hold keeps the parts of a request until the loop has answered it.
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

// answered releases the parts of the requests up to a number. l may be nil.
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

// release releases the parts that a request has held.
func (s *Server) release(held *long) {
	s.requests.release(held.cost)
	if held.large > 0 {
		s.largeBytes.Add(-held.large)
	}
	if held.slot {
		s.slots.release(1)
	}
}
