package replica

import (
	"slices"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// requests are the connections of this server's clients, and what they have on its way through
// the ensemble.
type requests struct {
	conns        map[session.ConnID]*conn
	writes       queue[waiting]
	syncs        queue[waiting]
	resuming     []resuming // waiting for what was on its way when they connected
	revalidating []resuming // on a learner, waiting for the leader's answer
	spare        [][]parked // memory of answered requests, to be used again
}

// conn is what the replica knows about a connection.
type conn struct {
	id         session.ConnID
	session    *session.Session
	identities []zk.Identity
	waits      place            // its last request that is on its way
	resuming   *session.Session // the session it will be attached to, see resume
	gone       bool

	// Requests are numbered as they arrive in the loop: asked is the last number given, and
	// told is that of the last request answered.
	asked, told uint64
}

// place is where a request waits: an item of one of the queues. The zero value belongs to a
// connection that waits for nothing.
type place struct {
	queue  *queue[waiting]
	number uint64
}

// waiting is a client's write or sync that is on its way through the ensemble.
type waiting struct {
	conn    *conn
	session zk.SessionID
	xid     zk.Xid
	op      zk.Op
	path    string               // of a sync
	connect *wire.ConnectRequest // of a handshake that waits for its session, or for a sync
	silent  bool                 // a sync that no client asked for: see fence
	step    uint64               // the step in which it was sent
	after   []parked             // later requests of its connection, which wait for it
	number  uint64               // see conn
	asked   *Asked               // a write to be audited; nil for none
}

// resuming is a connection that waits for its session: on a learner first for the leader's
// answer, then for what was on its way when it connected.
type resuming struct {
	conn    *conn
	connect *wire.ConnectRequest
	zxid    zk.Zxid
}

// open adds a new connection.
func (q *requests) open(id session.ConnID, identities []zk.Identity) *conn {
	c := &conn{id: id, identities: identities}
	q.conns[id] = c
	return c
}

// close removes a connection and returns it; nil if there is none.
func (q *requests) close(id session.ConnID) *conn {
	c := q.conns[id]
	if c != nil {
		c.gone = true
		delete(q.conns, id)
	}
	return c
}

// has reports whether a connection still exists.
func (q *requests) has(c *conn) bool { return c != nil && !c.gone }

// ids returns the connections in the order of their numbers.
func (q *requests) ids() []session.ConnID {
	ids := make([]session.ConnID, 0, len(q.conns))
	for id := range q.conns {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// before returns what a connection waits for; nil for nothing.
func (q *requests) before(c *conn) *waiting {
	if c.waits.queue == nil {
		return nil
	}
	return c.waits.queue.at(c.waits.number)
}

// park makes a request wait for an earlier one of its connection.
func (q *requests) park(before *waiting, p parked) {
	if n := len(q.spare); n > 0 && before.after == nil {
		before.after, q.spare = q.spare[n-1], q.spare[:n-1]
	}
	before.after = append(before.after, p)
}

// reuse keeps the memory of answered requests for others.
func (q *requests) reuse(answered []parked) {
	if spareLeast <= cap(answered) && cap(answered) <= spareMost && len(q.spare) < spareMax {
		clear(answered)
		q.spare = append(q.spare, answered[:0])
	}
}

// Memory is kept for at most spareMax lists of a few requests each, 1 MiB in total.
const spareMax, spareLeast, spareMost = 512, 4, 32

// addWrite queues a write, or a handshake that creates a session, after those before it.
func (q *requests) addWrite(w waiting) { wait(&q.writes, w) }

// hasWrites reports whether a write of a session is on its way, from any connection.
func (q *requests) hasWrites(id zk.SessionID) bool {
	for i := range q.writes.size() {
		if q.writes.all[q.writes.head+i].session == id {
			return true
		}
	}
	return false
}

// addSync queues a sync after those before it.
func (q *requests) addSync(w waiting) { wait(&q.syncs, w) }

func wait(in *queue[waiting], w waiting) {
	number := in.push(w)
	if w.conn != nil {
		w.conn.waits = place{queue: in, number: number}
	}
}

// takeWrite removes and returns the request that a transaction answers: that is the oldest one,
// or none.
func (q *requests) takeWrite(h *zk.TxnHeader) (waiting, bool) {
	w := q.writes.front()
	if w == nil || w.session != h.Session || w.xid != h.Cxid || !sameKind(w.op, h.Op) {
		return waiting{}, false
	}
	return q.writes.pop(), true
}

// sameKind keeps apart what a client and what the server itself ask for a session, both perhaps
// with xid 0.
func sameKind(asked, done zk.Op) bool {
	return done == zk.OpError || (asked == zk.OpCloseSession) == (done == zk.OpCloseSession) &&
		(asked == zk.OpCreateSession) == (done == zk.OpCreateSession)
}

// takeSync removes and returns the oldest sync; false if there is none, because the learner has
// left its role and taken one again meanwhile.
func (q *requests) takeSync() (waiting, bool) {
	if q.syncs.size() == 0 {
		return waiting{}, false
	}
	return q.syncs.pop(), true
}

// revalidate makes a handshake wait until the leader reports whether the client may have its
// session.
func (q *requests) revalidate(c *conn, req *wire.ConnectRequest) {
	q.revalidating = append(q.revalidating, resuming{conn: c, connect: req})
}

// revalidated removes and returns the handshake that the leader's answer is for: answers arrive
// in the order of the questions.
func (q *requests) revalidated() (resuming, bool) { return takeFirst(&q.revalidating) }

// resume makes a handshake wait until everything up to zxid is delivered.
func (q *requests) resume(c *conn, req *wire.ConnectRequest, zxid zk.Zxid) {
	q.resuming = append(q.resuming, resuming{conn: c, connect: req, zxid: zxid})
}

// resumed removes and returns the oldest handshake, if it waits for nothing after upTo.
func (q *requests) resumed(upTo zk.Zxid) (resuming, bool) {
	if len(q.resuming) == 0 || q.resuming[0].zxid > upTo {
		return resuming{}, false
	}
	return takeFirst(&q.resuming)
}

func takeFirst(all *[]resuming) (resuming, bool) {
	if len(*all) == 0 {
		return resuming{}, false
	}
	first := (*all)[0]
	*all = (*all)[1:]
	return first, true
}

// drop forgets what is on its way: this server will not learn whether it is done.
func (q *requests) drop() {
	q.writes.drop()
	q.syncs.drop()
	q.resuming, q.revalidating = nil, nil
}
