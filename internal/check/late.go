package check

import (
	"sort"

	"github.com/conclave-project/conclave/zk"
)

// requests are the requests of a session, in the order in which its client sent them.
type requests struct {
	changed  []request // those that have changed something
	answered []request // those that were answered, whatever was asked for
}

type request struct {
	xid  zk.Xid
	zxid zk.Zxid
}

func (m *Model) requestsOf(id zk.SessionID) *requests {
	r := m.orders[id]
	if r == nil {
		r = &requests{}
		m.orders[id] = r
	}
	return r
}

// inTime checks that a transaction comes after those of the client's earlier requests, and
// before all that the client has learned since (M6). A transaction that changes nothing may
// be late.
func (m *Model) inTime(h *zk.TxnHeader, t *zk.Txn) error {
	if h.Cxid <= 0 || ChangesNothing(t) {
		return nil
	}
	r := m.requestsOf(h.Session)
	if n := len(r.changed); n > 0 && h.Cxid < r.changed[n-1].xid {
		return broken(propertyModel, "M6: request %d of session %v makes %s, after request %d", h.Cxid, h.Session, number(h.Zxid), r.changed[n-1].xid)
	}
	r.changed = append(r.changed, request{h.Cxid, h.Zxid})
	later := sort.Search(len(r.answered), func(i int) bool { return r.answered[i].xid > h.Cxid })
	if later < len(r.answered) && r.answered[later].zxid < h.Zxid {
		return late(h.Session, r.changed[len(r.changed)-1], r.answered[later])
	}
	return nil
}

// Answered says that a session's client has had an answer.
func (m *Model) Answered(id zk.SessionID, xid zk.Xid, zxid zk.Zxid) error {
	r := m.requestsOf(id)
	r.answered = append(r.answered, request{xid, zxid})
	before := sort.Search(len(r.changed), func(i int) bool { return r.changed[i].xid >= xid })
	if before > 0 && r.changed[before-1].zxid > zxid {
		return late(id, r.changed[before-1], request{xid, zxid})
	}
	return nil
}

func late(id zk.SessionID, made, answer request) error {
	return broken(propertyModel, "M6: request %d of session %v makes %s, and the answer to request %d was of %s",
		made.xid, id, number(made.zxid), answer.xid, number(answer.zxid))
}
