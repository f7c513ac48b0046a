package replica

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// parked is a request that waits for an earlier one of its connection.
type parked struct {
	request    *zk.Request
	body       []byte
	identities []zk.Identity
	code       zk.Code
	fenced     bool // it waits for a sync that was sent after it arrived
	own        bool // a read that its connection answers by itself, see Clients.Reached
	unnumbered bool // it cannot be decoded, and gets no zxid although it is a multi
	number     uint64
}

// onRequest handles a request.
func (r *Replica) onRequest(e *Event) {
	c := r.requests.conns[e.Conn]
	if c == nil || c.session == nil || c.session.Closing {
		return // the connection is closed when the session's end is delivered
	}
	c.identities = e.Identities
	r.touch(c.session)
	c.asked++
	r.place(c, parked{request: e.Request, body: e.Body, identities: e.Identities, code: e.Code, own: e.Own, unnumbered: e.Unnumbered, number: c.asked})
}

// onAuth takes the new identities of a connection. The reply keeps its place in the order of
// replies, which not every client needs, but kazoo does.
func (r *Replica) onAuth(e *Event) { r.onRequest(e) }

// place puts a request in its place: writes and syncs go to the ensemble at once, everything
// else waits for what its connection has on the way (replica-R3). A leader answers a sync
// before it commits what was proposed after it. With linearizable reads a write waits for the
// reads before it.
func (r *Replica) place(c *conn, p parked) {
	before := r.requests.before(c)
	switch {
	case before == nil && r.wantsFence(&p):
		r.fence(c, p)
	case before == nil:
		r.begin(c, &p)
	case r.wantsFence(&p) && r.fencedBy(before):
		p.fenced = true
		r.requests.park(before, p)
	case !r.goesOut(c, &p), r.opts.LinearizableReads && (before.op == zk.OpSync || len(before.after) > 0):
		r.requests.park(before, p)
	default:
		r.begin(c, &p)
	}
}

// begin starts a request that need not wait.
func (r *Replica) begin(c *conn, p *parked) {
	switch {
	case !r.goesOut(c, p):
		r.answer(c, p)
	case p.request.Op == zk.OpSync:
		r.sync(c, p)
	default:
		r.write(c, p)
	}
}

// wantsFence reports whether a read has to wait for a sync of its own (linearizableReads). The
// sync is sent after the read has arrived, so the read sees everything that was acknowledged to
// any client before.
func (r *Replica) wantsFence(p *parked) bool {
	return r.opts.LinearizableReads && p.isRead() && !p.fenced && !r.role.readOnly()
}

// fence makes a read wait for a sync. Reads of the same step share one.
func (r *Replica) fence(c *conn, p parked) {
	p.fenced = true
	w := waiting{conn: c, session: c.session.ID, op: zk.OpSync, silent: true, step: r.steps, after: []parked{p}}
	r.askSync(w, &parked{body: syncBody})
}

// fencedBy reports whether a sync was sent in this step, and only for reads.
func (r *Replica) fencedBy(w *waiting) bool {
	if !w.silent || w.step != r.steps {
		return false
	}
	for i := range w.after {
		if !w.after[i].fenced {
			return false
		}
	}
	return true
}

// goesOut reports whether a request needs the ensemble.
func (r *Replica) goesOut(c *conn, p *parked) bool {
	op := p.request.Op
	switch {
	case !op.Known(), r.role.readOnly():
		return false
	case op == zk.OpCloseSession && c.session.Local && !c.session.Upgrading:
		return false
	case p.code == zk.ErrEphemeralOnLocalSession:
		return false // the other servers do not know the session
	case op == zk.OpSync:
		return p.code == zk.OK
	case !op.IsWrite():
		return false
	}
	return !r.stuck() && (p.code == zk.OK || op == zk.OpMulti && !p.unnumbered)
}

// stuck reports whether nothing can be written: this server decides, and its disk is full. A
// follower with a full disk needs no space for what the other servers store.
func (r *Replica) stuck() bool { return r.full && r.leads() }

// isRead reports whether a request reads the tree.
func (p *parked) isRead() bool {
	op := p.request.Op
	return op.Known() && !op.IsWrite() && op != zk.OpSync && op != zk.OpPing && op != zk.OpAuth && op != zk.OpSASL && p.code == zk.OK
}

// write sends a client's write on its way.
func (r *Replica) write(c *conn, p *parked) {
	if !r.upgrade(c, p.request) {
		p.code = zk.ErrEphemeralOnLocalSession
		r.place(c, *p)
		return
	}
	w := waiting{conn: c, session: c.session.ID, xid: p.request.Xid, op: p.request.Op, number: p.number, asked: r.keepAsked(p)}
	r.requests.addWrite(w)
	if r.leads() {
		r.decide(&asked{session: c.session.ID, xid: w.xid, request: p.request, code: p.code, identities: p.identities, owner: ownerSelf})
	} else {
		r.forward(&zab.Request{Session: w.session, Xid: w.xid, Op: w.op, Body: p.body, Identities: p.identities})
	}
	if p.request.Op == zk.OpCloseSession {
		c.session.Closing = true
	}
}

// sync asks the ensemble for everything committed up to now.
func (r *Replica) sync(c *conn, p *parked) {
	r.askSync(waiting{conn: c, session: c.session.ID, xid: p.request.Xid, op: zk.OpSync, path: p.request.Path, number: p.number}, p)
}

func (r *Replica) askSync(w waiting, p *parked) {
	r.requests.addSync(w)
	if r.leads() {
		r.order(zab.Event{Kind: zab.EventSync})
		return
	}
	req := zab.Request{Session: w.session, Xid: w.xid, Op: zk.OpSync}
	if p != nil {
		req.Body, req.Identities = p.body, p.identities
	}
	r.forward(&req)
}

// onSynced answers the oldest sync of this server.
func (r *Replica) onSynced(*zab.Effect) {
	w, ok := r.requests.takeSync()
	switch {
	case !ok:
	case w.conn == nil:
		r.trust.current() // everything that the snapshot was ahead by has come
		r.welcome()
	case !r.requests.has(w.conn):
	case w.connect != nil:
		r.attachResuming(w.conn, w.connect)
	default:
		if !w.silent {
			res := zk.Result{Op: zk.OpSync, Path: w.path}
			r.replyTo(w.conn, w.number, wire.ReplyHeader{Xid: w.xid, Zxid: r.tree.LastZxid()}, &res)
		}
		r.release(&w)
	}
}

// release continues with the requests that waited for one that is answered now. They need
// nothing from the ensemble, because writes and syncs have gone out at once. With linearizable
// reads they may be anything.
func (r *Replica) release(w *waiting) {
	for i := range w.after {
		if next := r.requests.before(w.conn); r.opts.LinearizableReads && w.op == zk.OpSync && next != nil && next.op == zk.OpSync && !next.silent && len(next.after) == 0 {
			next.after = w.after[i:] // all together, because thousands of syncs may follow each other
			return
		}
		switch {
		case !r.requests.has(w.conn):
			return
		case r.opts.LinearizableReads:
			r.place(w.conn, w.after[i])
		default:
			r.answer(w.conn, &w.after[i])
		}
	}
	r.requests.reuse(w.after)
}

// answer handles what has no transaction: reads, watches, pings, and requests that were refused
// without a decision.
func (r *Replica) answer(c *conn, p *parked) {
	req, code := p.request, p.code
	switch {
	case !req.Op.Known():
		r.replyTo(c, p.number, wire.ReplyHeader{Xid: req.Xid, Zxid: zk.NoZxid, Code: zk.ErrUnimplemented}, nil)
		r.drop(c) // the session stays
		return
	case code == zk.ErrAuthFailed, code == zk.ErrSessionClosedRequireSASL:
		r.replyTo(c, p.number, wire.ReplyHeader{Xid: req.Xid, Code: code}, &zk.Result{Op: req.Op})
		r.drop(c)
		return
	case req.Op == zk.OpCloseSession && c.session.Local:
		r.replyTo(c, p.number, wire.ReplyHeader{Xid: req.Xid, Zxid: r.tree.LastZxid()}, nil)
		r.closeLocal(c.session.ID)
		return
	case r.role.readOnly() && (req.Op.IsWrite() || req.Op == zk.OpSync):
		code = zk.ErrNotReadOnly // nobody leads, and nobody evaluates the request
	case code == zk.OK && req.Op.IsWrite():
		code = zk.ErrNotReadOnly // the disk is full
	}
	if code != zk.OK {
		r.refuse(c, p, code)
		return
	}
	if p.own {
		r.inTurn(c, p.number)
		r.clients.Reached(c.id)
		return
	}
	a := &r.answered
	r.reader.Read(req, Caller{Conn: c.id, Session: c.session.ID, Identities: p.identities}, a)
	if a.Lacks() || !r.mayAnswer(a.Weight()) {
		r.drop(c)
		return
	}
	r.tell = append(r.tell[:0], c.id)
	for i := range a.Events {
		r.clients.Notify(r.tell, &a.Events[i])
	}
	r.replyTo(c, p.number, a.Header(req, r.tree.LastZxid()), &a.Result)
	*a = Answer{Events: spaceOf(a.Events), Result: zk.Result{Children: spaceOf(a.Result.Children)}}
}

// spaceOf returns the memory of an answer for the next one, unless it is large.
func spaceOf[T any](answered []T) []T {
	const most = 128
	if cap(answered) > most {
		return nil
	}
	clear(answered)
	return answered[:0]
}

// LongAnswersMax bounds the total weight of all long answers that are made in one step.
// Connections leave answers to the step only if they are short, but a write before one may have
// made it long: a few of those are answered, and other connections are closed.
const LongAnswersMax = 4 << 20

func (r *Replica) mayAnswer(weight int) bool {
	if weight <= LongAnswer {
		return true
	}
	r.longAnswers += weight
	return r.longAnswers <= LongAnswersMax || r.longAnswers == weight
}

func (r *Replica) refuse(c *conn, p *parked, code zk.Code) {
	req := p.request
	r.replyTo(c, p.number, wire.ReplyHeader{Xid: req.Xid, Zxid: r.tree.LastZxid(), Code: code}, nil)
	if req.Op == zk.OpCloseSession {
		r.drop(c) // the request ends its connection in any case; the session expires later
	}
}

// replyTo sends a connection the reply to one of its requests.
func (r *Replica) replyTo(c *conn, number uint64, h wire.ReplyHeader, res *zk.Result) {
	r.inTurn(c, number)
	r.clients.Reply(c.id, h, res)
}

// inTurn counts an answer, which must belong to the next request of its connection.
func (r *Replica) inTurn(c *conn, number uint64) {
	c.told++
	invariant.Check(number == c.told, "replica: a reply passes another one of its connection (replica-R3)")
	invariant.Check(r.role.service != serviceNone, "replica: a client is answered without a role (replica-R6)")
}
