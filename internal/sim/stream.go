package sim

import (
	"slices"

	"github.com/conclave-project/conclave/zk"
)

// stream is one end of a connection. What is sent arrives at the other end late and in
// order, in pieces of any size. When the connection breaks, it does not arrive. While a
// direction is cut, everything waits, as with TCP.
type stream struct {
	w         *world
	random    *random
	self, far node
	other     *stream
	slowMs    func() int64 // how long a packet may take

	out     []byte
	sinceMs int64 // when the first byte of out was sent, or an earlier one of which only a part has arrived
	fin     bool  // after out
	moving  bool
	closed  bool      // this end sends and receives nothing any more
	broken  bool      // the connection is gone, and this end does not know it yet
	late    []transit // recent packets to this end that took long

	in       []byte
	passed   int64 // bytes that have left in
	received func()
	ended    func()
	parcels  []*parcel // snapshots in transit to this end
	arrives  func()    // arrive
}

// parcel is a snapshot in a stream: the position of its bytes, and what the checkers know
// about it. The receiver of a real link reads until the snapshot ends. Here it is told the
// length, and must find the same end.
type parcel struct {
	from, bytes int64
	history     []zk.Zxid
}

// connect makes a connection; the caller must set what both ends do with it.
func (w *world) connect(a, b node, r *random, slow func() int64) (near, far *stream) {
	near = &stream{w: w, random: r, self: a, far: b, slowMs: slow}
	far = &stream{w: w, random: r, self: b, far: a, slowMs: slow}
	near.other, far.other = far, near
	near.arrives, far.arrives = near.arrive, far.arrive
	return near, far
}

// send sends bytes.
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

// close ends the connection after what was sent. This end receives nothing any more.
func (s *stream) close() {
	if s.closed || s.fin {
		return
	}
	s.fin, s.ended, s.received = true, nil, nil
	s.move()
}

// move lets what waits arrive after a while.
func (s *stream) move() {
	if s.moving || s.closed || len(s.out) == 0 && !s.fin || !s.w.open(s.self, s.far) {
		return
	}
	s.moving = true
	ms := s.random.between(0, s.slowMs())
	s.takes(s.w.nowMs + ms)
	s.w.after(ms, s.arrives)
}

// transit is how long something was in transit, and when it arrived.
type transit struct{ atMs, ms int64 }

// takes records when what waits will arrive. If a ping and its answer together are in
// transit for so long that a leader considers its learner silent, this excuses an election:
// the network was late. The two may be any that arrive within the same silence.
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

// arrive delivers what has been collected, or a part of it, to the other end.
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
			s.lost() // the other side does not know the connection
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

// lost handles the end of a connection, when this end learns of it.
func (s *stream) lost() {
	if s.closed {
		return
	}
	s.closed, s.out = true, nil
	if s.ended != nil {
		s.ended()
	}
}

// reset breaks the connection: what is in transit is lost. An end that cannot be reached
// does not learn of it.
func (s *stream) reset() {
	for _, end := range []*stream{s, s.other} {
		end.out, end.broken = nil, true
		if s.w.open(end.far, end.self) {
			end.lost()
		}
	}
}

// abandon tells the other end that this process is gone: its kernel closes the sockets,
// unless the machine is gone too.
func (s *stream) abandon(silently bool) {
	if s.closed {
		return
	}
	s.closed, s.out = true, nil
	if silently {
		return // nobody answers until the machine is back; then what is sent is refused
	}
	o := s.other
	s.w.after(s.random.between(0, s.slowMs()), func() {
		if s.w.open(s.self, s.far) {
			o.lost()
		}
	})
}

// take removes what was read from in.
func (s *stream) take(n int) {
	s.passed += int64(n)
	s.in = s.in[:copy(s.in, s.in[n:])]
}
