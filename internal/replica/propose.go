package replica

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// proposal is a transaction on its way: decided, but not yet delivered.
type proposal struct {
	header  zk.TxnHeader
	txn     zk.Txn
	digest  zk.Digest
	conn    *conn // who asked for it, nil if the server did
	op      zk.Op
	connect *wire.ConnectRequest // a handshake waits for it
	behind  []parked             // what its connection asked for after it
}

// parked is a request without a transaction that waits behind a write of its
// connection, or the handshake of a session's new connection that waits behind
// everything on its way.
type parked struct {
	conn       *conn
	request    *zk.Request
	identities []zk.Identity
	code       zk.Code
	connect    *wire.ConnectRequest // nil for a request
}

// propose decides a client's write and puts it on its way. A code stands for a
// request that could not be decoded: it has its zxid all the same.
func (r *Replica) propose(c *conn, req *zk.Request, code zk.Code) {
	o := r.origin(c.session.ID, !c.session.Closing)
	o.Identities = c.identities
	p := proposal{conn: c, op: req.Op}
	switch {
	case code != zk.OK:
		p.txn = prep.Refuse(code)
	case req.Op == zk.OpReconfig:
		p.txn = prep.Refuse(r.reconfigCode())
	default:
		p.txn, p.digest = r.prep.Decide(req, &o)
	}
	p.header = zk.TxnHeader{Session: o.Session, Cxid: req.Xid, Zxid: o.Zxid, Time: o.TimeMs, Op: p.txn.Op}
	r.submit(p)
	c.pending = o.Zxid
}

// reconfigCode is a stand-alone server's answer to every reconfig.
func (r *Replica) reconfigCode() zk.Code {
	if r.opts.ReconfigEnabled {
		return zk.ErrUnimplemented
	}
	return zk.ErrReconfigDisabled
}

// proposeOwn puts a transaction of the server itself on its way: a session's
// beginning or end, a container's end.
func (r *Replica) proposeOwn(id zk.SessionID, req *zk.Request, p proposal) {
	o := r.origin(id, true)
	p.op = req.Op
	p.txn, p.digest = r.prep.Decide(req, &o)
	p.header = zk.TxnHeader{Session: id, Zxid: o.Zxid, Time: o.TimeMs, Op: p.txn.Op}
	r.submit(p)
}

// origin gives a write its zxid.
func (r *Replica) origin(id zk.SessionID, alive bool) prep.Origin {
	r.last++
	return prep.Origin{Session: id, Alive: alive, Zxid: r.last, TimeMs: r.now.WallMs}
}

// submit queues a proposal and has it stored.
func (r *Replica) submit(p proposal) {
	r.queue.push(p)
	r.counts.Proposed++
	payload := txn.Append(make([]byte, 0, payloadBytes(&p.txn)), &p.header, &p.txn, p.digest)
	r.effects.Append = append(r.effects.Append, Record{p.header.Zxid, payload})
}

// payloadBytes is about the size of a transaction's bytes.
func payloadBytes(t *zk.Txn) int {
	n := 128 + len(t.Path) + len(t.Data) + 32*len(t.ACL)
	for i := range t.Sub {
		n += payloadBytes(&t.Sub[i])
	}
	return n
}

// proposals are the transactions on their way, in zxid order without a gap.
type proposals struct {
	all  []proposal
	head int
}

func (q *proposals) size() int { return len(q.all) - q.head }

func (q *proposals) push(p proposal) {
	if n := len(q.all); n > q.head {
		invariant.Check(p.header.Zxid == q.all[n-1].header.Zxid+1, "replica: proposal leaves a gap (R2)")
	}
	q.all = append(q.all, p)
}

// pending tells whether the proposal of zxid is still on its way.
func (q *proposals) pending(zxid zk.Zxid) bool {
	return q.size() > 0 && zxid >= q.all[q.head].header.Zxid
}

// park puts a request behind the proposal of zxid, which is on its way.
func (q *proposals) park(zxid zk.Zxid, p parked) {
	at := q.head + int(zxid-q.all[q.head].header.Zxid)
	q.all[at].behind = append(q.all[at].behind, p)
}

// pop returns the first proposal and forgets it. It is valid until the next
// push.
func (q *proposals) pop() *proposal {
	p := &q.all[q.head]
	q.head++
	return p
}

// tidy gives the room of delivered proposals back.
func (q *proposals) tidy() {
	clear(q.all[:q.head])
	if q.head == len(q.all) {
		q.all, q.head = q.all[:0], 0
	} else if q.head > 1024 && q.head > len(q.all)/2 {
		n := copy(q.all, q.all[q.head:])
		clear(q.all[n:])
		q.all, q.head = q.all[:n], 0
	}
}
