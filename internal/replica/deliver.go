package replica

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// onSynced commits what the log has on disk. The server is its own quorum, so
// its own sync is the quorum's.
func (r *Replica) onSynced(e *Event) {
	if !r.queue.pending(e.Zxid) {
		return
	}
	r.tree.Lock()
	for r.queue.size() > 0 && r.queue.all[r.queue.head].header.Zxid <= e.Zxid {
		r.deliver(r.queue.pop())
	}
	r.prep.Applied(e.Zxid)
	r.tree.Unlock()
	r.queue.tidy()
}

// deliver applies a committed transaction, tells those who watch what changed,
// and answers who asked for it and what was asked behind it.
func (r *Replica) deliver(p *proposal) {
	invariant.Check(p.header.Zxid == r.tree.LastZxid()+1, "replica: delivery out of order (R2)")
	r.tree.Apply(&p.header, &p.txn, &r.applied)
	r.counts.Delivered++
	if p.digest.Version != 0 && p.digest != r.tree.Digest() {
		r.counts.DigestMismatches++
	}
	r.effects.OverQuota = append(r.effects.OverQuota, r.applied.OverQuota...)
	for i := range r.applied.Changes {
		r.notify(p.header.Zxid, i)
	}
	switch p.txn.Op {
	case zk.OpCreateSession:
		r.sessionCreated(p)
	case zk.OpCloseSession:
		r.sessionClosed(p)
	default:
		r.reply(p)
	}
	for i := range p.behind {
		b := &p.behind[i]
		if b.connect != nil {
			r.resumed(b.conn, b.connect)
		} else if r.conns[b.conn.id] == b.conn {
			r.answer(b.conn, b.request, b.identities, b.code)
		}
	}
}

// notify tells the connections that wait for a change and may read it.
func (r *Replica) notify(zxid zk.Zxid, i int) {
	change := &r.applied.Changes[i]
	r.tell = r.watches.Fire(change.Type, change.Path, r.tell[:0])
	event := zk.Event{Type: change.Type, State: zk.StateSyncConnected, Path: change.Path, Zxid: zxid}
	for _, id := range r.tell {
		c := r.conns[id]
		if c != nil && r.opts.Auth.Allow(change.ACL, zk.PermRead, c.identities) {
			r.clients.Notify(id, &event)
		}
	}
}

// reply answers the request of a proposal.
func (r *Replica) reply(p *proposal) {
	if p.conn == nil || r.conns[p.conn.id] != p.conn {
		return
	}
	res := &r.applied.Result
	h := wire.ReplyHeader{Xid: p.header.Cxid, Zxid: p.header.Zxid, Code: res.Code}
	res.Op = p.op
	r.clients.Reply(p.conn.id, h, res)
}

// sessionCreated answers the handshake that waited for it.
func (r *Replica) sessionCreated(p *proposal) {
	s := r.sessions.Open(p.header.Session, p.txn.TimeoutMs, r.touchedMs())
	if p.conn == nil || r.conns[p.conn.id] != p.conn {
		return // the client is gone; the session expires
	}
	if s.Conn != 0 {
		r.drop(p.conn) // somebody guessed the session before it was there, and has it
		return
	}
	r.attach(p.conn, s, p.connect)
}

// sessionClosed removes a session and closes the connection it is attached to.
func (r *Replica) sessionClosed(p *proposal) {
	s := r.sessions.Get(p.header.Session)
	if p.conn != nil && r.conns[p.conn.id] == p.conn {
		r.clients.Reply(p.conn.id, wire.ReplyHeader{Xid: p.header.Cxid, Zxid: p.header.Zxid}, nil)
	}
	if s != nil && s.Conn != 0 {
		r.clients.Close(s.Conn)
		r.forget(s.Conn)
	}
	r.sessions.Remove(p.header.Session)
}

// forget drops a connection, its watches with it.
func (r *Replica) forget(id session.ConnID) {
	c := r.conns[id]
	if c == nil {
		return
	}
	delete(r.conns, id)
	r.watches.Forget(id)
	if c.session != nil && c.session.Conn == id {
		c.session.Conn = 0
	}
	if c.resuming != nil && c.resuming.Conn == id {
		c.resuming.Conn = 0
	}
}
