package replica

import (
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// onRequest finds a request's place. Writes are proposed at once; everything
// else waits behind the writes of its connection that are on their way (R3).
func (r *Replica) onRequest(e *Event) {
	c := r.conns[e.Conn]
	if c == nil || c.session == nil || c.session.Closing {
		return // the connection is closed when the session's end is delivered
	}
	c.identities = e.Identities
	r.sessions.Touch(c.session, r.touchedMs())
	req := e.Request
	switch {
	case req.Op.IsWrite() && req.Op.Known() && (e.Code == zk.OK || req.Op == zk.OpMulti):
		r.write(c, req, e.Code)
	case r.queue.pending(c.pending):
		r.queue.park(c.pending, parked{c, req, e.Identities, e.Code, nil})
	default:
		r.answer(c, req, e.Identities, e.Code)
	}
}

// onAuth takes the new identities of a connection; the reply has its place in
// the order, which not every client needs, but kazoo does.
func (r *Replica) onAuth(e *Event) {
	r.onRequest(e)
}

// write proposes a write, or refuses it while the disk is full.
func (r *Replica) write(c *conn, req *zk.Request, code zk.Code) {
	if r.full {
		if r.queue.pending(c.pending) {
			r.queue.park(c.pending, parked{c, req, c.identities, zk.ErrNotReadOnly, nil})
		} else {
			r.refuse(c, req, zk.ErrNotReadOnly)
		}
		return
	}
	r.propose(c, req, code)
	if req.Op == zk.OpCloseSession {
		c.session.Closing = true
	}
}

// answer does what has no transaction: reads, watches, pings, and what was
// refused without a decision.
func (r *Replica) answer(c *conn, req *zk.Request, identities []zk.Identity, code zk.Code) {
	switch {
	case !req.Op.Known():
		r.clients.Reply(c.id, wire.ReplyHeader{Xid: req.Xid, Zxid: zk.NoZxid, Code: zk.ErrUnimplemented}, nil)
		r.drop(c) // the session stays
		return
	case code == zk.ErrAuthFailed:
		r.clients.Reply(c.id, wire.ReplyHeader{Xid: req.Xid, Code: code}, nil)
		r.drop(c)
		return
	case code != zk.OK:
		r.refuse(c, req, code)
		return
	}
	var a Answer
	r.reader.Read(req, Caller{c.id, c.session.ID, identities}, &a)
	for i := range a.Events {
		r.clients.Notify(c.id, &a.Events[i])
	}
	r.clients.Reply(c.id, a.Header(req, r.tree.LastZxid()), &a.Result)
}

func (r *Replica) refuse(c *conn, req *zk.Request, code zk.Code) {
	r.clients.Reply(c.id, wire.ReplyHeader{Xid: req.Xid, Zxid: r.tree.LastZxid(), Code: code}, nil)
	if req.Op == zk.OpCloseSession {
		r.drop(c) // it ends its connection in any case; the session expires later
	}
}
