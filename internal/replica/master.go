package replica

import (
	"github.com/conclave-project/conclave/internal/zab"
)

// What an observer sends to its observer master, a follower, is forwarded to the leader
// together with what the follower's own clients ask. Nothing is decided here: neither whether a
// session may stay, nor the result of a request. The leader is told which observer behind the
// master has asked (zab.Behind), so a session that moves among them leaves the observer where
// it was. An Apache leader does not distinguish them.

// handTouchesOn adds the heartbeats that an observer has gathered to this server's own.
func (r *Replica) handTouchesOn(touches []zab.Touch) {
	for _, t := range touches {
		s := r.sessions.Get(t.Session)
		if s != nil && t.TimeoutMs > 0 && r.touches.note(s, t.TimeoutMs, r.now.MonoMs, r.opts.Zab.TickMs, 0) {
			r.tellTouches()
		}
	}
}

// answerOn passes the leader's answer to the observer that has asked for a session.
func (r *Replica) answerOn(e *zab.Effect) {
	if e.OK && r.sessions.Get(e.Session) == nil && r.peer.State() != zab.Looking { // its createSession is on its way, as in onRevalidated
		r.sessions.Open(e.Session, r.opts.SessionMaxMs, r.touchedMs()).Coming = true
	}
	r.order(zab.Event{Kind: zab.EventRevalidated, Link: e.Link, Session: e.Session, TimeoutMs: e.TimeoutMs, OK: e.OK})
}
