package replica

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// onConnect takes a handshake: a new session, or an old one with its password.
func (r *Replica) onConnect(e *Event) {
	c := &conn{id: e.Conn, identities: e.Identities}
	r.conns[e.Conn] = c
	switch {
	case e.Connect.LastZxidSeen > r.tree.LastZxid():
		// The client has seen more than this server: it must look elsewhere.
		r.drop(c)
	case e.Connect.Session == 0:
		r.newSession(c, e.Connect)
	default:
		r.resume(c, e.Connect)
	}
}

// timeout negotiates a session's timeout.
func (r *Replica) timeout(wantMs int32) int32 {
	return min(max(wantMs, r.opts.SessionMinMs), r.opts.SessionMaxMs)
}

func (r *Replica) newSession(c *conn, req *wire.ConnectRequest) {
	if r.full {
		r.drop(c)
		return
	}
	s := r.sessions.Open(r.sessions.NewID(), r.timeout(req.TimeoutMs), r.touchedMs())
	r.proposeOwn(s.ID, &zk.Request{Op: zk.OpCreateSession, TTL: int64(s.TimeoutMs)}, proposal{conn: c, connect: req})
}

// resume attaches a session to a new connection. The old connection goes first,
// even if the password is wrong, as in ZooKeeper.
func (r *Replica) resume(c *conn, req *wire.ConnectRequest) {
	s := r.sessions.Get(req.Session)
	if s != nil && s.Conn != 0 {
		old := s.Conn
		r.clients.Close(old)
		r.forget(old)
	}
	if s == nil || s.Closing || !session.PasswordMatches(req.Session, req.Password) {
		r.clients.Connected(c.id, &wire.ConnectResponse{HasReadOnly: req.HasReadOnly})
		r.drop(c)
		return
	}
	r.sessions.Resume(s, c.id, r.timeout(req.TimeoutMs), r.touchedMs())
	if r.queue.size() > 0 {
		// What the session asked for on its former connection may still be on its
		// way. A read or a sync on the new one must not be answered before it: a
		// client that looks for a create whose reply was lost would not find it,
		// and create it twice.
		c.resuming = s
		r.queue.park(r.last, parked{conn: c, connect: req})
		return
	}
	r.attach(c, s, req)
}

// resumed attaches a session when what was on its way has been delivered.
func (r *Replica) resumed(c *conn, req *wire.ConnectRequest) {
	s := r.sessions.Get(req.Session)
	switch {
	case r.conns[c.id] != c: // gone while it waited
	case s == nil || s.Closing:
		r.clients.Connected(c.id, &wire.ConnectResponse{HasReadOnly: req.HasReadOnly})
		r.drop(c)
	default:
		r.attach(c, s, req)
	}
}

// attach binds a connection and a session, and answers the handshake.
func (r *Replica) attach(c *conn, s *session.Session, req *wire.ConnectRequest) {
	c.session, s.Conn = s, c.id
	r.clients.Connected(c.id, &wire.ConnectResponse{
		TimeoutMs: s.TimeoutMs, Session: s.ID, Password: session.PasswordOf(s.ID), HasReadOnly: req.HasReadOnly,
	})
}

// drop closes a connection; its session, if it has one, stays.
func (r *Replica) drop(c *conn) {
	r.clients.Close(c.id)
	r.forget(c.id)
}

func (r *Replica) onTouch(e *Event) {
	if c := r.conns[e.Conn]; c != nil && c.session != nil {
		r.sessions.Touch(c.session, r.touchedMs())
	}
}

// onDisconnect is the last of a connection: nobody sets a watch for it any more,
// as its own goroutine may have done even after it was closed from here.
func (r *Replica) onDisconnect(e *Event) {
	r.forget(e.Conn)
	r.watches.Forget(e.Conn)
}
