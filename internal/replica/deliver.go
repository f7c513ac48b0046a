package replica

import (
	"slices"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// onDeliver applies a committed transaction, sends watch events for what changed, and answers
// the client of this server that asked for it, as well as the requests that waited after that
// one.
func (r *Replica) onDeliver(e *zab.Effect) {
	r.noteConfig(&e.Record)
	r.lockTree()
	var p proposal
	own := r.delivered(&e.Record, &p)
	invariant.Check(p.header.Zxid > r.tree.LastZxid(), "replica: delivery out of order (replica-R2)")
	invariant.Check(p.header.Zxid <= r.peer.Delivered(), "replica: applied before it is committed (replica-R1)")
	r.tree.ApplyKnown(&p.header, &p.Txn, &p.Known, &r.applied)
	r.noteMap(&p.Txn)
	r.counts.Delivered++
	r.measure(&p, own)
	r.compare(&p)
	r.effects.OverQuota = append(r.effects.OverQuota, r.applied.OverQuota...)
	told := false
	r.permitted.begin()
	for i := range r.applied.Changes {
		told = r.notify(p.header.Zxid, i) || told
	}
	if told {
		r.clients.Notified()
	}
	w, mine := r.requests.takeWrite(&p.header)
	there := r.requests.has(w.conn)
	r.audit(&p, &w)
	switch p.Txn.Op {
	case zk.OpCreateSession:
		r.sessionCreated(&p, &w)
	case zk.OpCloseSession:
		r.sessionClosed(&p, &w)
	default:
		r.reply(&p, &w)
	}
	if mine {
		if w.conn != nil && w.op != zk.OpCloseSession && !there {
			r.counts.StaleReplies++
		}
		r.release(&w)
	}
	r.attachResumed()
}

// delivered fills in a record as a value. It reports whether this server has decided the record
// itself, in which case it is not decoded.
func (r *Replica) delivered(record *zab.Record, p *proposal) (own bool) {
	if r.leading.delivered(record.Zxid, p) {
		return true
	}
	var err error
	p.header, p.Txn, p.Digest, err = txn.Decode(record.Payload)
	invariant.Check(err == nil, "replica: a committed transaction cannot be read")
	return false
}

// notify sends the event of a change to the connections that watch for it and may read it.
func (r *Replica) notify(zxid zk.Zxid, i int) (told bool) {
	invariant.Check(r.locked, "replica: a watch fires where readers see the change already (replica-R4)")
	change := &r.applied.Changes[i]
	r.tell = r.watches.Fire(change.Type, change.Path, r.tell[:0])
	r.tallies.fired(change.Type, len(r.tell))
	if r.tell = r.readers(change.ACL, r.tell); len(r.tell) == 0 {
		return false // the usual case, returned early because the event below is allocated on the heap
	}
	event := zk.Event{Type: change.Type, State: zk.StateSyncConnected, Path: change.Path, Zxid: zxid}
	r.clients.Notify(r.tell, &event)
	return true
}

// readers keeps those of some connections that may read under an ACL. In most cases that is all
// of them, because everybody may.
func (r *Replica) readers(list acl.List, conns []session.ConnID) []session.ConnID {
	if len(conns) == 0 || r.opts.Auth.Allow(list, zk.PermRead, nil) {
		return conns
	}
	r.permitted.about(list)
	return slices.DeleteFunc(conns, func(id session.ConnID) bool {
		c := r.requests.conns[id]
		if c == nil {
			return true
		}
		may, asked := r.permitted.may[id]
		if !asked {
			if !r.permitted.ask(list.Questions() * len(c.identities)) {
				r.effects.Unasked++
				r.drop(c)
				return true
			}
			may = r.opts.Auth.Allow(list, zk.PermRead, c.identities)
			r.permitted.note(id, may)
		}
		return !may
	})
}

// permitted is what was found, during one transaction, about which connections may read what it
// changes. It limits the work: a multi may change one znode, or several with the same ACL,
// 40,000 times, and notify hundreds of connections, each with dozens of identities.
type permitted struct {
	list *zk.ACL // the first entry of the ACL that was asked about last; nil: none
	may  map[session.ConnID]bool
	left int // look-ups that the transaction may still use
}

// lookUpsMax bounds the look-ups in ACLs that a transaction may use: about a fifth of a second.
// A watcher that would need more is disconnected, and learns what it has missed when it
// reconnects.
const lookUpsMax = 4 << 20

func (q *permitted) begin() {
	q.forget()
	q.left = lookUpsMax
}

// permittedKept is how many answers a map may have to be used again.
const permittedKept = 1 << 10

func (q *permitted) forget() {
	switch {
	case q.list == nil:
	case len(q.may) > permittedKept:
		q.may = nil
	default:
		clear(q.may)
	}
	q.list = nil
}

// about forgets what was found about a different ACL.
func (q *permitted) about(list acl.List) {
	if first := &list.Entries()[0]; first != q.list {
		q.forget()
		if q.may == nil {
			q.may = map[session.ConnID]bool{}
		}
		q.list = first
	}
}

// note keeps an answer for the next change with the same ACL.
func (q *permitted) note(id session.ConnID, may bool) { q.may[id] = may }

// ask counts n look-ups, and reports whether they may still be made.
func (q *permitted) ask(n int) bool {
	q.left -= n
	return q.left >= 0
}

// reply answers the request that a transaction came from.
func (r *Replica) reply(p *proposal, w *waiting) {
	if w.op == zk.OpCreateSession {
		r.notUpgraded(w) // an upgrade, or a handshake, whose session could not be created
		return
	}
	if !r.requests.has(w.conn) {
		return
	}
	res := &r.applied.Result
	if res.Code == zk.ErrSessionMoved {
		r.drop(w.conn) // its client is connected elsewhere; ZooKeeper sends no answer either (ZOOKEEPER-710)
		return
	}
	h := wire.ReplyHeader{Xid: p.header.Cxid, Zxid: p.header.Zxid, Code: res.Code}
	res.Op = w.op
	r.replyTo(w.conn, w.number, h, res)
	if w.op == zk.OpCloseSession {
		r.drop(w.conn) // it was refused, and it ends the connection in any case
	}
}

// sessionCreated answers the handshake that waited for its session.
func (r *Replica) sessionCreated(p *proposal, w *waiting) {
	s := r.sessions.Open(p.header.Session, p.Txn.TimeoutMs, r.touchedMs())
	s.Coming, s.LongestMs = false, p.Txn.TimeoutMs
	s.TimeoutMs = min(s.TimeoutMs, s.LongestMs) // it may have been opened before its own timeout was known
	r.upgraded(s)
	if !r.requests.has(w.conn) || w.connect == nil {
		return // the client is gone; the session expires
	}
	if s.Conn != 0 {
		r.drop(w.conn) // another client guessed the session id early, and has the session
		return
	}
	if r.leads() {
		s.Owner = ownerSelf
	}
	r.attach(w.conn, s, w.connect)
}

// sessionClosed removes a session and closes its connection.
func (r *Replica) sessionClosed(p *proposal, w *waiting) {
	s := r.sessions.Get(p.header.Session)
	r.noteEnded(p.header.Session)
	if r.requests.has(w.conn) {
		r.replyTo(w.conn, w.number, wire.ReplyHeader{Xid: p.header.Cxid, Zxid: p.header.Zxid}, nil)
	}
	invariant.Check(!r.tree.OwnsEphemerals(p.header.Session), "replica: an ephemeral outlives its session (replica-R5)")
	if s != nil && s.Conn != 0 {
		r.clients.Close(s.Conn)
		r.forget(s.Conn)
	}
	r.sessions.Remove(p.header.Session)
	r.touches.forget(p.header.Session)
}

// forget drops a connection together with its watches.
func (r *Replica) forget(id session.ConnID) {
	c := r.requests.close(id)
	if c == nil {
		return
	}
	r.watches.Forget(id)
	if c.session != nil && c.session.Conn == id {
		c.session.Conn = 0
	}
	if c.resuming != nil && c.resuming.Conn == id {
		c.resuming.Conn = 0
	}
}
