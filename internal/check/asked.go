package check

import (
	"strings"

	"github.com/conclave-project/conclave/zk"
)

const propertyAsked = "asked"

// Asked compares the transactions with what clients have sent and what they were told:
//
//	A1  A transaction in a client's name is what the client has asked for under that
//	    number, or its refusal.
//	A2  What a client was told has not happened has not changed anything: it was never
//	    sent, or was given up before it could be.
//
// So everything that is gone was deleted by somebody's request.
type Asked struct {
	requests map[origin]*zk.Request
	never    map[origin]bool
	happened map[origin]zk.Zxid
}

// NewAsked returns a checker of an ensemble without requests so far.
func NewAsked() *Asked {
	return &Asked{requests: map[origin]*zk.Request{}, never: map[origin]bool{}, happened: map[origin]zk.Zxid{}}
}

// Sent says that a client sends a request, which must not be changed any more.
func (a *Asked) Sent(session zk.SessionID, req *zk.Request) {
	a.requests[origin{session, req.Xid}] = req
}

// NotApplied says that a client was told that a request, for which there was no reply, has
// not happened.
func (a *Asked) NotApplied(session zk.SessionID, xid zk.Xid) error {
	o := origin{session, xid}
	if zxid, done := a.happened[o]; done {
		return broken(propertyAsked, "A2: session %v is told that its request %d has not happened, and it is %s", session, xid, number(zxid))
	}
	a.never[o] = true
	return nil
}

// Shown takes a transaction that a server has shown.
func (a *Asked) Shown(h *zk.TxnHeader, t *zk.Txn) error {
	o := origin{h.Session, h.Cxid}
	if h.Cxid == 0 || ChangesNothing(t) {
		return nil // the server's own, or it has changed nothing
	}
	req, sent := a.requests[o]
	switch {
	case !sent:
		return broken(propertyAsked, "A1: %s is request %d of session %v, which has not sent it", number(h.Zxid), h.Cxid, h.Session)
	case !isWhat(req, t):
		return broken(propertyAsked, "A1: %s is %v %s, and request %d of session %v was %v %s",
			number(h.Zxid), t.Op, t.Path, h.Cxid, h.Session, req.Op, req.Path)
	case a.never[o]:
		return broken(propertyAsked, "A2: %s is request %d of session %v, which was told that it has not happened", number(h.Zxid), h.Cxid, h.Session)
	}
	a.happened[o] = h.Zxid
	return nil
}

// Happened returns the transaction of a request; false if it has changed nothing so far.
func (a *Asked) Happened(session zk.SessionID, xid zk.Xid) (zk.Zxid, bool) {
	zxid, done := a.happened[origin{session, xid}]
	return zxid, done
}

// ChangesNothing reports whether a transaction leaves tree and sessions as they are, as
// that of a refused write does.
func ChangesNothing(t *zk.Txn) bool { return t.Op == zk.OpError || failed(t) }

// failed reports whether a multi has failed.
func failed(t *zk.Txn) bool {
	for i := range t.Sub {
		if t.Sub[i].Op == zk.OpError {
			return true
		}
	}
	return false
}

// isWhat reports whether a transaction is what a request asks for.
func isWhat(req *zk.Request, t *zk.Txn) bool {
	switch {
	case req.Op == zk.OpMulti:
		if t.Op != zk.OpMulti || len(t.Sub) != len(req.Ops) {
			return false
		}
		for i := range t.Sub {
			if !isWhat(&req.Ops[i], &t.Sub[i]) {
				return false
			}
		}
		return true
	case req.Op.IsCreate():
		return t.Op.IsCreate() && hashOf(req.Data) == hashOf(t.Data) && req.Mode.IsEphemeral() == t.Ephemeral && req.TTL == t.TTL &&
			(t.Path == req.Path || req.Mode.IsSequential() && strings.HasPrefix(t.Path, req.Path))
	case req.Op == zk.OpSetData:
		return t.Op == req.Op && t.Path == req.Path && hashOf(req.Data) == hashOf(t.Data)
	}
	return t.Op == req.Op && t.Path == req.Path
}
