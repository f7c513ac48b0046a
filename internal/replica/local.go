package replica

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// A local session is known to one server alone (localSessionsEnabled): it costs
// the ensemble no transaction, it ends with its server, it cannot move, and it
// cannot own ephemerals unless it is upgraded first to one that all know
// (localSessionsUpgradingEnabled).

// newLocal opens a local session and attaches it at once.
func (r *Replica) newLocal(c *conn, req *wire.ConnectRequest) {
	s := r.locals.Open(r.ids.Next(r.sessions, r.locals), r.timeout(req.TimeoutMs), r.touchedMs())
	s.Local = true
	r.attach(c, s, req)
}

// resumeLocal gives a local session back to its client; false if there is none, or
// all know it by now: it is being upgraded by this server, who leads, or the answer to
// its upgrade was lost with a role. The old connection goes first in any case.
func (r *Replica) resumeLocal(c *conn, req *wire.ConnectRequest) bool {
	s := r.locals.Get(req.Session)
	if s == nil || !session.PasswordMatches(req.Session, req.Password) {
		return false
	}
	r.closeOld(s)
	if r.sessions.Get(req.Session) != nil {
		return false
	}
	switch {
	case !r.requests.hasWrites(s.ID):
		r.locals.Resume(s, c.id, r.renegotiate(s, req.TimeoutMs), r.touchedMs())
		r.attach(c, s, req)
	case r.leads():
		r.take(c, s, req, r.leading.last)
	default:
		r.takeAfterSync(c, s, req)
	}
	return true
}

// table is the one that a session is in.
func (r *Replica) table(s *session.Session) *session.Table {
	if s.Local {
		return r.locals
	}
	return r.sessions
}

// closeLocal ends a local session, with its connection.
func (r *Replica) closeLocal(id zk.SessionID) {
	s := r.locals.Get(id)
	if s == nil {
		return
	}
	r.closeOld(s)
	r.locals.Remove(id)
}

// expireLocals ends the local sessions whose time is over.
func (r *Replica) expireLocals() {
	for _, id := range r.locals.Expire(r.lookedAtMs()) {
		r.counts.Expired++
		r.closeLocal(id)
	}
}

// upgrade makes the session of a connection one that all servers know, before a
// request that needs it (ZOOKEEPER-1147). It returns false if that may not be.
// The decision falls here, where requests have their order: those after the
// upgrade are not local any more (ZOOKEEPER-3471).
func (r *Replica) upgrade(c *conn, req *zk.Request) bool {
	if !c.session.Local || c.session.Upgrading || !ownsEphemeral(req) {
		return true
	}
	if !r.opts.UpgradeSessions {
		return false
	}
	c.session.Upgrading = true
	r.askSession(waiting{conn: c, session: c.session.ID, op: zk.OpCreateSession}, c.session.LongestMs)
	return true
}

// notUpgraded ends a local session that cannot be one that all know: the leader has ended
// it already, and others may have what it held.
func (r *Replica) notUpgraded(w *waiting) {
	if r.requests.has(w.conn) {
		r.drop(w.conn)
	}
	r.closeLocal(w.session)
}

// ownsEphemeral reports whether a request creates an ephemeral, in a multi too
// (ZOOKEEPER-2725). A container or a TTL znode never is one, whatever its flags say; of a
// local session the leader refuses those.
func ownsEphemeral(req *zk.Request) bool {
	for i := range req.Ops {
		if ownsEphemeral(&req.Ops[i]) {
			return true
		}
	}
	return (req.Op == zk.OpCreate || req.Op == zk.OpCreate2) && req.Mode.IsEphemeral()
}

// upgraded hands the connection that a local session has by now, which need not be
// the one that asked, over to the session that all servers know.
func (r *Replica) upgraded(s *session.Session) {
	local := r.locals.Get(s.ID)
	if local == nil {
		return // upgraded before, or its client is gone
	}
	r.locals.Remove(s.ID)
	r.touch(s) // until now nobody else was told that its client lives
	c := r.requests.conns[local.Conn]
	if c == nil {
		return
	}
	r.sessions.Resume(s, c.id, local.TimeoutMs, r.touchedMs())
	if c.resuming != nil { // it waits for what is on its way
		c.resuming = s
	} else {
		c.session = s
	}
	if r.leads() {
		s.Owner = ownerSelf
	}
}

// isLocal reports whether a session that the leader does not know is a local one of
// its own, or may be one of the learner that brings its request. One that has ended
// was known to all, and its last requests may still be on their way.
func (r *Replica) isLocal(id zk.SessionID) bool {
	if r.leading.ended.has(id) {
		return false
	}
	return r.locals.Get(id) != nil || r.opts.LocalSessions && uint8(uint64(id)>>56) != uint8(r.opts.Zab.ID)
}

// noteEnded remembers a session that has ended, where it could be taken for a local
// one.
func (r *Replica) noteEnded(id zk.SessionID) {
	if r.opts.LocalSessions && r.leads() {
		r.leading.ended.note(id, r.now.MonoMs)
	}
}

// endedKept is for how many times initLimit and syncLimit an ended session is remembered.
const endedKept = 10

// forgetEnded forgets sessions of which no request can come any more. A learner may be behind
// for longer than syncLimit, and its observers for as long again: it says that it is there, also
// while it is at a long step.
func (r *Replica) forgetEnded() {
	r.leading.ended.forget(r.now.MonoMs - endedKept*(r.opts.Zab.InitMs+r.opts.Zab.SyncMs))
}
