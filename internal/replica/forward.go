package replica

import (
	"encoding/binary"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// syncBody is the body of a sync of the root. An empty path would do as well, but some servers
// do not accept it.
var syncBody = []byte{0, 0, 0, 1, '/'}

// forward sends a client's request to the leader.
func (r *Replica) forward(q *zab.Request) {
	r.order(zab.Event{Kind: zab.EventForward, Request: q})
}

// forwardSession asks the leader for a session.
func (r *Replica) forwardSession(id zk.SessionID, timeoutMs int32) {
	body := binary.BigEndian.AppendUint32(nil, uint32(timeoutMs))
	r.forward(&zab.Request{Session: id, Op: zk.OpCreateSession, Body: body})
}

// onForwarded handles a request that a learner forwards.
func (r *Replica) onForwarded(e *zab.Effect) {
	q, owner := e.Request, ownerOf(e)
	switch {
	case r.peer.State() != zab.Leading: // this server is an observer master
		r.order(zab.Event{Kind: zab.EventForward, Link: e.Link, Request: q})
	case q.Op == zk.OpSync:
		r.order(zab.Event{Kind: zab.EventSync, Link: e.Link})
	case q.Op == zk.OpCreateSession:
		r.createForwarded(q, owner)
	default:
		w := asked{session: q.Session, xid: q.Xid, request: new(zk.Request), identities: q.Identities, owner: owner}
		w.code = r.decodeForwarded(q, w.request)
		r.decide(&w)
		if s := r.sessions.Get(q.Session); s != nil && q.Op == zk.OpCloseSession {
			s.Closing = true
		}
	}
}

// decodeForwarded decodes the body of a learner's request. An operation that clients may not
// ask for is refused: a check from ZooKeeper before 3.8.1 (ZOOKEEPER-2623).
func (r *Replica) decodeForwarded(q *zab.Request, req *zk.Request) zk.Code {
	req.Op, req.Xid = q.Op, q.Xid
	if !q.Op.Known() || !q.Op.IsWrite() {
		return zk.ErrUnimplemented
	}
	if wire.DecodeBody(q.Body, r.bodyBytesMax(), req) != nil {
		return zk.ErrMarshalling
	}
	return zk.OK
}

func (r *Replica) bodyBytesMax() int {
	if r.opts.Prep.TxnBytesMax > 0 {
		return r.opts.Prep.TxnBytesMax
	}
	return wire.FrameBytesMax
}

// createForwarded opens a session whose id a learner has chosen. A session that has ended is
// not created again: others may have taken what it held, and its client must learn of that.
func (r *Replica) createForwarded(q *zab.Request, owner uint64) {
	timeoutMs := r.opts.SessionMinMs
	if len(q.Body) >= 4 {
		if asked := int32(binary.BigEndian.Uint32(q.Body)); asked > 0 {
			timeoutMs = asked
		}
	}
	asked := &asked{session: q.Session, xid: q.Xid, request: &zk.Request{Op: zk.OpCreateSession, TTL: int64(timeoutMs)}, owner: owner}
	s := r.sessions.Get(q.Session)
	switch {
	case s != nil && s.Closing, r.leading.ended.has(q.Session):
		asked.code = zk.ErrSessionExpired
	case s == nil:
		s := r.sessions.Open(q.Session, timeoutMs, r.touchedMs())
		s.Coming, s.Owner = true, owner
	}
	r.decide(asked)
}

// onTouched handles the heartbeats that a learner has gathered. A learner that the client has
// left may still send one, with the timeout that the session had there.
func (r *Replica) onTouched(e *zab.Effect) {
	if r.peer.State() != zab.Leading {
		r.handTouchesOn(e.Touches)
		return
	}
	for _, t := range e.Touches {
		if s := r.sessions.Get(t.Session); s != nil && t.TimeoutMs > 0 {
			if s.Owner == 0 || broughtBy(s.Owner, e.Link) {
				s.TimeoutMs = t.TimeoutMs
			}
			r.sessions.Touch(s, r.touchedMs())
		}
	}
}

// onRevalidate answers a learner to which a client has connected with a session. The server
// that had the session before has lost it: its later writes for the session are refused.
func (r *Replica) onRevalidate(e *zab.Effect) {
	if r.peer.State() != zab.Leading {
		r.order(zab.Event{Kind: zab.EventRevalidate, Link: e.Link, Session: e.Session, TimeoutMs: e.TimeoutMs})
		return
	}
	r.counts.Revalidated++
	s := r.sessions.Get(e.Session)
	valid := s != nil && !s.Closing
	if valid {
		r.closeOld(s)
		r.sessions.Resume(s, 0, e.TimeoutMs, r.touchedMs())
		s.Owner = ownerOf(e)
	}
	r.order(zab.Event{Kind: zab.EventRevalidated, Link: e.Link, Session: e.Session, TimeoutMs: e.TimeoutMs, OK: valid})
}

// touch records a heartbeat of a client of this server. On a learner it waits for the next ping
// unless it is urgent.
func (r *Replica) touch(s *session.Session) {
	switch {
	case s.Local:
		r.locals.Touch(s, r.touchedMs())
	case r.role.readOnly():
	case r.leads():
		r.sessions.Touch(s, r.touchedMs())
	case r.touches.note(s, s.TimeoutMs, r.now.MonoMs, r.opts.Zab.TickMs, r.viaMs()):
		r.tellTouches()
	}
}

// viaMs returns how much longer a heartbeat may take to the leader when it goes through an
// observer master.
func (r *Replica) viaMs() int64 {
	if r.peer.BehindMaster() {
		return r.opts.Zab.PingMs()
	}
	return 0
}

// tellTouches has the leader told at once. One message serves everything that asks for it in
// this step.
func (r *Replica) tellTouches() {
	if r.touches.tell(r.steps, r.now.MonoMs) {
		r.order(zab.Event{Kind: zab.EventTouched})
	}
}
