package replica

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// onConnect handles a handshake: for a new session, or for an existing one with its password.
func (r *Replica) onConnect(e *Event) {
	c := r.requests.open(e.Conn, e.Identities)
	switch {
	case r.role.service == serviceNone:
		r.counts.Unserved++
		r.drop(c) // nobody leads, or this server is not synchronized yet
	case r.opts.NoClientsOfLeader && r.leads():
		r.drop(c)
	case e.Connect.LastZxidSeen > r.upTo():
		// The client has seen more than this server has: it must connect elsewhere.
		r.drop(c)
	case r.role.readOnly():
		r.connectReadOnly(c, e.Connect)
	case e.Connect.Session == 0 && r.opts.LocalSessions:
		r.newLocal(c, e.Connect)
	case e.Connect.Session == 0:
		r.newSession(c, e.Connect)
	case r.tookBack(e.Connect.LastZxidSeen):
		// A restore has changed what the client relies on: znodes that it created are gone, and
		// others that it deleted exist again, even ephemerals of its own. Those are deleted
		// with the session, soon.
		r.refuseSession(c, e.Connect)
	case r.resumeLocal(c, e.Connect):
	default:
		r.resume(c, e.Connect)
	}
}

// upTo returns the zxid up to which this server has everything that was committed. A server
// that serves in an epoch has everything of the epochs before it. A client may have seen a zxid
// of such an epoch that no transaction has: from a leader that had not decided anything yet, or
// from a read-only server whose log ended with uncommitted transactions.
func (r *Replica) upTo() zk.Zxid {
	if r.role.serving() && r.role.epoch != 0 {
		return max(r.tree.LastZxid(), zk.MakeZxid(r.role.epoch, 0))
	}
	return r.tree.LastZxid()
}

// RestoredEpochs is how many epochs a restored history begins above its backup. No session
// lives through so many elections.
const RestoredEpochs = 1 << 16

// tookBack reports whether a client has seen a history that a restore has undone.
func (r *Replica) tookBack(seen zk.Zxid) bool {
	return seen > 0 && int64(r.upTo().Epoch()) >= int64(seen.Epoch())+RestoredEpochs
}

// timeout negotiates a session's timeout.
func (r *Replica) timeout(wantMs int32) int32 {
	return min(max(wantMs, r.opts.SessionMinMs), r.opts.SessionMaxMs)
}

// renegotiate negotiates the timeout of an existing session. It is at most the timeout in the
// log, since the next leader knows no other. The session is nil if this learner has not learned
// of it yet.
func (r *Replica) renegotiate(s *session.Session, wantMs int32) int32 {
	if s == nil {
		return r.timeout(wantMs)
	}
	return min(r.timeout(wantMs), s.LongestMs)
}

func (r *Replica) newSession(c *conn, req *wire.ConnectRequest) {
	if r.stuck() {
		r.drop(c)
		return
	}
	r.askSession(waiting{conn: c, session: r.ids.Next(r.sessions, r.locals), op: zk.OpCreateSession, connect: req}, r.timeout(req.TimeoutMs))
}

// askSession asks the ensemble for a session.
func (r *Replica) askSession(w waiting, timeoutMs int32) {
	r.requests.addWrite(w)
	if !r.leads() {
		r.forwardSession(w.session, timeoutMs)
		return
	}
	r.sessions.Open(w.session, timeoutMs, r.touchedMs()).Coming = true
	r.decideOwn(w.session, &zk.Request{Op: zk.OpCreateSession, TTL: int64(timeoutMs)})
}

// resume attaches a session to a new connection. The old connection is closed first, unless the
// password is wrong. ZooKeeper closes it even then, so anybody who has seen the owner of an
// ephemeral can disturb its client. On a learner the leader decides.
func (r *Replica) resume(c *conn, req *wire.ConnectRequest) {
	if !session.PasswordMatches(req.Session, req.Password) {
		r.refuseSession(c, req)
		return
	}
	s := r.sessions.Get(req.Session)
	r.closeOld(s)
	if !r.leads() {
		r.requests.revalidate(c, req)
		r.order(zab.Event{Kind: zab.EventRevalidate, Session: req.Session, TimeoutMs: r.renegotiate(s, req.TimeoutMs)})
		return
	}
	if s == nil || s.Closing {
		r.refuseSession(c, req)
		return
	}
	s.Owner = ownerSelf // requests that arrive from its former place are refused from now on, as in onRevalidate
	r.take(c, s, req, r.leading.last)
}

// closeOld closes the connection that a session has.
func (r *Replica) closeOld(s *session.Session) {
	if s != nil && s.Conn != 0 {
		old := s.Conn
		r.clients.Close(old)
		r.forget(old)
	}
}

func (r *Replica) refuseSession(c *conn, req *wire.ConnectRequest) {
	r.clients.Connected(c.id, &wire.ConnectResponse{HasReadOnly: req.HasReadOnly})
	r.drop(c)
}

// onRevalidated handles the leader's answer on whether a client may have its session. Answers
// arrive in the order of the questions.
func (r *Replica) onRevalidated(e *zab.Effect) {
	if e.Link != 0 {
		r.answerOn(e)
		return
	}
	w, ok := r.requests.revalidated()
	switch {
	case !ok || !r.requests.has(w.conn): // disconnected while it waited
	case !e.OK:
		r.refuseSession(w.conn, w.connect)
	case r.peer.State() == zab.Looking: // the role has ended in this step, and what was on its way is lost
		r.drop(w.conn)
	default:
		s := r.sessions.Get(e.Session)
		if s == nil { // its createSession is on its way, and brings its timeout
			s = r.sessions.Open(e.Session, r.timeout(w.connect.TimeoutMs), r.touchedMs())
			s.Coming = true
		}
		s.ToldMs = r.now.MonoMs // the leader has just accepted it
		r.closeOld(s)
		if r.peer.State() == zab.Observing {
			r.takeAfterSync(w.conn, s, w.connect)
			return
		}
		r.take(w.conn, s, w.connect, r.peer.Last())
	}
}

// takeAfterSync is take for a server that does not know the zxid of what is on its way: for an
// observer, or for what this server has forwarded. It sends a sync instead. The leader no
// longer lets an older connection of the session write, and it answers the sync when everything
// that it had proposed before is delivered here.
func (r *Replica) takeAfterSync(c *conn, s *session.Session, req *wire.ConnectRequest) {
	r.table(s).Resume(s, c.id, r.renegotiate(s, req.TimeoutMs), r.touchedMs())
	c.resuming = s
	r.askSync(waiting{conn: c, session: s.ID, op: zk.OpSync, silent: true, connect: req}, &parked{body: syncBody})
}

// take attaches a session as soon as everything up to zxid is delivered. What the session asked
// for on its former connection may still be on its way, and a read on the new connection must
// not be answered before it: a client that looks for a create whose reply was lost would not
// find the znode, and would create it twice.
func (r *Replica) take(c *conn, s *session.Session, req *wire.ConnectRequest, zxid zk.Zxid) {
	r.table(s).Resume(s, c.id, r.renegotiate(s, req.TimeoutMs), r.touchedMs())
	c.resuming = s
	r.requests.resume(c, req, zxid)
	r.attachResumed()
}

// attachResumed attaches the sessions whose wait is over.
func (r *Replica) attachResumed() {
	for {
		w, ok := r.requests.resumed(max(r.tree.LastZxid(), r.idle()))
		if !ok {
			return
		}
		r.attachResuming(w.conn, w.connect)
	}
}

// attachResuming attaches the session that a connection has waited for.
func (r *Replica) attachResuming(c *conn, req *wire.ConnectRequest) {
	s := c.resuming
	switch {
	case !r.requests.has(c): // disconnected while it waited
	case s.Closing || r.table(s).Get(s.ID) != s:
		r.refuseSession(c, req)
	default:
		r.attach(c, s, req)
	}
}

// idle returns the last zxid that this leader has assigned, if nothing is on its way: on a new
// leader it is above everything in the tree.
func (r *Replica) idle() zk.Zxid {
	if r.leading.proposals.size() == 0 && r.leads() {
		return r.leading.last
	}
	return zk.NoZxid
}

// attach binds a connection and a session, and answers the handshake. The transaction that
// created the session has been delivered by now.
func (r *Replica) attach(c *conn, s *session.Session, req *wire.ConnectRequest) {
	if !r.leads() && c.resuming == nil {
		s.ToldMs = r.now.MonoMs // the leader has just created it
	}
	c.session, s.Conn, c.resuming = s, c.id, nil
	r.touch(s) // it may have waited for what was on its way
	r.clients.Connected(c.id, &wire.ConnectResponse{
		TimeoutMs: s.TimeoutMs, Session: s.ID, Password: session.PasswordOf(s.ID),
		ReadOnly: r.role.readOnly(), HasReadOnly: req.HasReadOnly,
	})
}

// drop closes a connection; its session, if it has one, stays.
func (r *Replica) drop(c *conn) {
	r.clients.Close(c.id)
	r.forget(c.id)
}

func (r *Replica) onTouch(e *Event) {
	if c := r.requests.conns[e.Conn]; c != nil && c.session != nil {
		r.touch(c.session)
	}
}

// onDisconnect is the last event of a connection. Nobody sets a watch for it any more, as its
// own goroutine may have done even after it was closed from here.
//
// On a learner the last heartbeat goes to the leader at once: the client may have been killed,
// and others wait for the end of its session.
func (r *Replica) onDisconnect(e *Event) {
	if c := r.requests.conns[e.Conn]; c != nil && c.session != nil && r.touches.untold(c.session.ID) {
		r.tellTouches()
	}
	r.forget(e.Conn)
	r.watches.Forget(e.Conn)
}
