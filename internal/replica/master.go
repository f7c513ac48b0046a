package replica

import (
	"github.com/conclave-project/conclave/internal/zab"
)

// What an observer brings to its observer master, a follower, goes on to the leader with what
// the follower's own clients ask. Nothing is decided here: neither whether a session may stay,
// nor what becomes of a request. The leader is told which of those behind the master has asked
// (zab.Behind), so that a session which moves among them leaves the one where it was. To a
// leader of Apache's they are all one.

// handTouchesOn notes the heartbeats that an observer has gathered among this server's own.
func (r *Replica) handTouchesOn(touches []zab.Touch) {
	for _, t := range touches {
		s := r.sessions.Get(t.Session)
		if s != nil && t.TimeoutMs > 0 && r.touches.note(s, t.TimeoutMs, r.now.MonoMs, r.opts.Zab.TickMs, 0) {
			r.tellTouches()
		}
	}
}

// answerOn hands the leader's answer on to the observer that has asked for a session.
func (r *Replica) answerOn(e *zab.Effect) {
	if e.OK && r.sessions.Get(e.Session) == nil && r.peer.State() != zab.Looking { // its createSession is on its way, as in onRevalidated
		r.sessions.Open(e.Session, r.opts.SessionMaxMs, r.touchedMs()).Coming = true
	}
	r.order(zab.Event{Kind: zab.EventRevalidated, Link: e.Link, Session: e.Session, TimeoutMs: e.TimeoutMs, OK: e.OK})
}
