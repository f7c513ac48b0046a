package sim

import (
	"slices"

	"github.com/conclave-project/conclave/zk"
)

// stream is one end of a connection. What is sent arrives at the other end late
// and in order, in pieces of any size; or, when the connection breaks, not at
// all. While a direction is cut everything waits, as TCP makes it.
type stream struct {
	w         *world
	random    *random
	self, far node
	other     *stream
	slowMs    func() int64 // how long a packet takes, at most

	out     []byte
	sinceMs int64 // when the first of out was sent, or something before it that came with it in part
	fin     bool  // after out
	moving  bool
	closed  bool      // nothing is sent or received here any more
	broken  bool      // the connection is no more, and this end has not learned of it
	late    []transit // of what was sent here, those that took long, lately

	in       []byte
	passed   int64 // bytes that have left in
	received func()
	ended    func()
	parcels  []*parcel // of the snapshots that are on their way to this end
	arrives  func()    // arrive
}

// parcel is a snapshot in a stream: where its bytes stand, and what the checkers
// know of it. The receiver of a real link reads until the snapshot ends; here it
// is told how long that is, and must come to the same end.
type parcel struct {
	from, bytes int64
	history     []zk.Zxid
}

// connect makes a connection; both ends must be given what they do with it.
func (w *world) connect(a, b node, r *random, slow func() int64) (near, far *stream) {
	near = &stream{w: w, random: r, self: a, far: b, slowMs: slow}
	far = &stream{w: w, random: r, self: b, far: a, slowMs: slow}
	near.other, far.other = far, near
	near.arrives, far.arrives = near.arrive, far.arrive
	return near, far
}

// send puts bytes on their way.
func (s *stream) send(b []byte) {
	if s.closed || s.fin {
		return
	}
	if len(s.out) == 0 {
		s.sinceMs = s.w.nowMs
	}
	s.out = append(s.out, b...)
	s.move()
}

// close ends the connection after what was sent. This end receives nothing more.
func (s *stream) close() {
	if s.closed || s.fin {
		return
	}
	s.fin, s.ended, s.received = true, nil, nil
	s.move()
}

// move has what waits arrive after a while.
func (s *stream) move() {
	if s.moving || s.closed || len(s.out) == 0 && !s.fin || !s.w.open(s.self, s.far) {
		return
	}
	s.moving = true
	ms := s.random.between(0, s.slowMs())
	s.takes(s.w.nowMs + ms)
	s.w.after(ms, s.arrives)
}

// transit is how long something was on its way, and when it has arrived.
type transit struct{ atMs, ms int64 }

// takes notes when what waits will arrive. A ping and its answer that are together on their
// way for so long that a leader takes its learner for silent excuse an election: the network
// is what was late. The two may be any that arrive within the same silence.
func (s *stream) takes(atMs int64) {
	plan := &s.w.plan
	took := transit{atMs, atMs - s.sinceMs}
	if s.self >= firstClient || s.far >= firstClient || took.ms <= int64(plan.NetMs) {
		return
	}
	s.late = append(slices.DeleteFunc(s.late, func(t transit) bool { return t.atMs < s.w.nowMs-plan.SyncMs }), took)
	ms := took.ms
	for _, t := range s.other.late {
		if t.atMs >= s.sinceMs-plan.SyncMs {
			ms = max(ms, took.ms+t.ms)
		}
	}
	if ms > plan.patienceMs() {
		s.w.lateMs = max(s.w.lateMs, atMs)
	}
}

// arrive brings what has gathered to the other end, or a piece of it.
func (s *stream) arrive() {
	s.moving = false
	if s.closed || !s.w.open(s.self, s.far) {
		return
	}
	n := len(s.out)
	if n > 1 && s.random.oneIn(16) {
		n = 1 + s.random.below(n)
	}
	o := s.other
	if o.closed || s.broken {
		if s.w.up(s.far) {
			s.lost() // nobody there knows the connection
		}
		return
	}
	if n > 0 {
		o.in = append(o.in, s.out[:n]...)
		s.out = s.out[:copy(s.out, s.out[n:])]
		if o.received != nil {
			o.received()
		}
	}
	switch {
	case s.closed:
	case len(s.out) > 0:
		s.move()
	case s.fin:
		s.closed = true
		o.lost()
	}
}

// lost is the end of a connection, as this end learns of it.
func (s *stream) lost() {
	if s.closed {
		return
	}
	s.closed, s.out = true, nil
	if s.ended != nil {
		s.ended()
	}
}

// reset breaks the connection: what is on its way is lost. An end that cannot be
// reached receives nothing.
func (s *stream) reset() {
	for _, end := range []*stream{s, s.other} {
		end.out, end.broken = nil, true
		if s.w.open(end.far, end.self) {
			end.lost()
		}
	}
}

// abandon is what the other end sees of a machine that is gone: its sockets are
// closed by its kernel, unless that is gone too.
func (s *stream) abandon(silently bool) {
	if s.closed {
		return
	}
	s.closed, s.out = true, nil
	if silently {
		return // until the machine is back nobody answers, then what is sent is refused
	}
	o := s.other
	s.w.after(s.random.between(0, s.slowMs()), func() {
		if s.w.open(s.self, s.far) {
			o.lost()
		}
	})
}

// take removes what was read from the beginning of in.
func (s *stream) take(n int) {
	s.passed += int64(n)
	s.in = s.in[:copy(s.in, s.in[n:])]
}
