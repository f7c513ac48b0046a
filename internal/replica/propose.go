package replica

import (
	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// ownerSelf is the owner of the sessions whose clients are connected to the leader itself.
const ownerSelf = ^uint64(0)

// ownerOf returns the owner of a session whose client is connected to the learner that an
// effect came from: the learner's link and, for an observer behind an observer master, also the
// number that the master has for the observer.
func ownerOf(e *zab.Effect) uint64 { return uint64(uint32(e.Link)) | uint64(zk.NoZxid-e.Zxid)<<32 }

// broughtBy reports whether an owner is the learner on a link, or an observer behind it.
func broughtBy(owner uint64, link zab.LinkID) bool {
	return owner != ownerSelf && uint32(owner) == uint32(link)
}

// asked is a write that the leader has to decide.
type asked struct {
	session    zk.SessionID
	xid        zk.Xid
	request    *zk.Request
	code       zk.Code // what is already known to be wrong with it: it gets a zxid nevertheless
	identities []zk.Identity
	// owner is the learner that forwarded it (ownerOf), ownerSelf if a client of this server
	// asked, and 0 for what the leader does by itself.
	owner uint64
}

// decide turns a write into a transaction and proposes it. Every write becomes one, even if it
// fails: the server that forwarded it finds its answer in the order of transactions.
func (r *Replica) decide(w *asked) {
	s := r.sessions.Get(w.session)
	local := w.owner != 0 && s == nil && r.isLocal(w.session)
	o := prep.Origin{
		Session: w.session, Alive: w.owner == 0 || s != nil && !s.Closing || local, Local: local,
		Identities: w.identities, Zxid: r.leading.number(r.peer), TimeMs: r.now.WallMs,
	}
	p := r.leading.proposal()
	var config *zab.Config
	switch code := r.objection(w); {
	case code != zk.OK:
		p.Txn = prep.Refuse(code)
	case w.request.Op == zk.OpReconfig:
		p.Txn, p.Digest, config = r.decideReconfig(w, &o)
	default:
		r.leading.prep.Decide(w.request, &o, &p.Decision)
	}
	p.header = zk.TxnHeader{Session: w.session, Cxid: w.xid, Zxid: o.Zxid, Time: o.TimeMs, Op: p.Txn.Op}
	r.propose(p, config)
}

// objection returns the reason to refuse a write without evaluating it.
func (r *Replica) objection(w *asked) zk.Code {
	if w.code != zk.OK || w.owner == 0 || w.request.Op == zk.OpCloseSession || w.request.Op == zk.OpCreateSession {
		return w.code
	}
	s := r.sessions.Get(w.session)
	switch {
	case s == nil && r.isLocal(w.session):
		return zk.OK
	case s == nil || s.Closing:
		return zk.ErrSessionExpired
	case s.Owner != 0 && s.Owner != w.owner:
		return zk.ErrSessionMoved
	}
	s.Owner = w.owner
	if w.owner != ownerSelf {
		// A learner's touch of its client may come after its write. A client of this server was
		// touched when its request arrived, and that request may have waited for a sync since.
		r.sessions.Touch(s, r.touchedMs())
	}
	return zk.OK
}

// decideOwn proposes a transaction of the server itself: the beginning or end of a session, or
// the end of a container.
func (r *Replica) decideOwn(id zk.SessionID, req *zk.Request) {
	r.decide(&asked{session: id, request: req})
}

// propose gives a transaction to the peer.
func (r *Replica) propose(p *proposal, config *zab.Config) {
	r.counts.Proposed++
	payload := txn.Append(make([]byte, 0, payloadBytes(&p.Txn)), &p.header, &p.Txn, p.Digest)
	r.order(zab.Event{Kind: zab.EventPropose, Record: zab.Record{Zxid: p.header.Zxid, Payload: payload}, Config: config})
}

// payloadBytes estimates the size of an encoded transaction with its header and digest. Memory
// allocated in excess is held as long as the record is in the history.
func payloadBytes(t *zk.Txn) int { return 96 + bodyBytes(t) }

func bodyBytes(t *zk.Txn) int {
	n := 24 + len(t.Path) + len(t.Data) + 32*len(t.ACL)
	for i := range t.Sub {
		n += bodyBytes(&t.Sub[i])
	}
	return n
}
