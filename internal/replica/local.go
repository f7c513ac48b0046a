package replica

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// A local session is known to only one server (localSessionsEnabled). It costs the ensemble no
// transaction, it ends with its server, and it cannot move. It cannot own ephemerals unless it
// is first upgraded to one that all servers know (localSessionsUpgradingEnabled).

// newLocal opens a local session and attaches it at once.
func (r *Replica) newLocal(c *conn, req *wire.ConnectRequest) {
	s := r.locals.Open(r.ids.Next(r.sessions, r.locals), r.timeout(req.TimeoutMs), r.touchedMs())
	s.Local = true
	r.attach(c, s, req)
}

// resumeLocal attaches a local session to its client's new connection. It returns false if
// there is no such local session, or if all servers know the session by now: this server is the
// leader and is upgrading it, or the answer to its upgrade was lost with a role. The old
// connection is closed first in any case.
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

// table returns the table that a session is in.
func (r *Replica) table(s *session.Session) *session.Table {
	if s.Local {
		return r.locals
	}
	return r.sessions
}

// closeLocal ends a local session and closes its connection.
func (r *Replica) closeLocal(id zk.SessionID) {
	s := r.locals.Get(id)
	if s == nil {
		return
	}
	r.closeOld(s)
	r.locals.Remove(id)
}

// expireLocals ends the local sessions that have expired.
func (r *Replica) expireLocals() {
	expired := r.locals.Expire(r.lookedAtMs())
	r.noteExpired(r.locals, expired)
	for _, id := range expired {
		r.closeLocal(id)
	}
}

// upgrade turns the session of a connection into one that all servers know, before a request
// that needs it (ZOOKEEPER-1147). It returns false if that is not allowed. The decision is made
// here, where requests have their order: those after the upgrade are not local any more
// (ZOOKEEPER-3471).
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

// notUpgraded ends a local session that cannot become one that all servers know: the leader has
// ended it already, and others may have taken what it held.
func (r *Replica) notUpgraded(w *waiting) {
	if r.requests.has(w.conn) {
		r.drop(w.conn)
	}
	r.closeLocal(w.session)
}

// ownsEphemeral reports whether a request creates an ephemeral, possibly within a multi
// (ZOOKEEPER-2725). A container or a TTL znode is never an ephemeral, whatever its flags say;
// the leader refuses them to a local session.
func ownsEphemeral(req *zk.Request) bool {
	for i := range req.Ops {
		if ownsEphemeral(&req.Ops[i]) {
			return true
		}
	}
	return (req.Op == zk.OpCreate || req.Op == zk.OpCreate2) && req.Mode.IsEphemeral()
}

// upgraded moves the connection of a local session, which need not be the one that asked for
// the upgrade, to the session that all servers know.
func (r *Replica) upgraded(s *session.Session) {
	local := r.locals.Get(s.ID)
	if local == nil {
		return // upgraded before, or its client is gone
	}
	r.locals.Remove(s.ID)
	r.touch(s) // until now no other server was told that its client is alive
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

// isLocal reports whether a session that the leader does not know is a local session of the
// leader, or may be a local session of the learner that forwards its request. A session that
// has ended was known to all servers, and its last requests may still be on their way.
func (r *Replica) isLocal(id zk.SessionID) bool {
	if r.leading.ended.has(id) {
		return false
	}
	return r.locals.Get(id) != nil || r.opts.LocalSessions && uint8(uint64(id)>>56) != uint8(r.opts.Zab.ID)
}

// noteEnded remembers a session that has ended, if it could be mistaken for a local one.
func (r *Replica) noteEnded(id zk.SessionID) {
	if r.opts.LocalSessions && r.leads() {
		r.leading.ended.note(id, r.now.MonoMs)
	}
}

// endedKept is how long an ended session is remembered, as a multiple of initLimit plus
// syncLimit.
const endedKept = 10

// forgetEnded forgets sessions for which no request can arrive any more. A learner may be
// behind for longer than syncLimit, and its observers for as long again, because a server
// reports that it is alive even during a long step.
func (r *Replica) forgetEnded() {
	r.leading.ended.forget(r.now.MonoMs - endedKept*(r.opts.Zab.InitMs+r.opts.Zab.SyncMs))
}
