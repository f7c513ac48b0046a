package check

import "github.com/conclave-project/conclave/zk"

const propertyReadOnly = "read-only"

// ReadOnly judges the answers of servers that are partitioned from their quorum. S2 of
// Session holds for them too: no client goes back in time.
//
//	C1  No write is done, and no sync.
//	C2  What is read is the tree of the answer's zxid, if a serving server ever
//	    shows that zxid. It may never be shown: the end of a log may not be
//	    committed.
type ReadOnly struct {
	model  *Model
	order  *Order
	unsure map[zk.Zxid][]reading // answers whose zxid may still be shown
}

// reading is an answer to a read.
type reading struct {
	who  Asker
	req  *zk.Request
	res  zk.Result
	code zk.Code
}

// NewReadOnly returns a checker without answers so far.
func NewReadOnly(m *Model, o *Order) *ReadOnly {
	return &ReadOnly{model: m, order: o, unsure: map[zk.Zxid][]reading{}}
}

// Refused judges the answer of a partitioned server, which must refuse what it cannot do.
// local means that only that server knows the client's session; it may end such a session.
func (r *ReadOnly) Refused(local bool, req *zk.Request, code zk.Code) error {
	if !req.Op.IsWrite() && req.Op != zk.OpSync || code == zk.ErrNotReadOnly || local && req.Op == zk.OpCloseSession {
		return nil
	}
	return broken(propertyReadOnly, "C1: %v %s is answered with %v by a server that is partitioned", req.Op, req.Path, code)
}

// Read takes the answer of such a server to a read.
func (r *ReadOnly) Read(who *Asker, req *zk.Request, zxid zk.Zxid, code zk.Code, res *zk.Result) error {
	if !looks(req.Op) {
		return nil
	}
	if _, shown := r.order.Shown(); zxid > shown {
		r.unsure[zxid] = append(r.unsure[zxid], reading{*who, req, *res, code})
		return nil
	}
	if !r.order.WasShown(zxid) {
		return nil
	}
	return r.model.Read(who, req, zxid, code, res)
}

// Shown says that a serving server shows zxid; everything before it is known.
func (r *ReadOnly) Shown(zxid zk.Zxid) error {
	for _, a := range r.unsure[zxid] {
		if err := r.model.Read(&a.who, a.req, zxid, a.code, &a.res); err != nil {
			return err
		}
	}
	delete(r.unsure, zxid)
	return nil
}

// looks reports whether an operation reads a znode.
func looks(op zk.Op) bool {
	switch op {
	case zk.OpExists, zk.OpGetData, zk.OpGetChildren, zk.OpGetChildren2, zk.OpGetACL:
		return true
	}
	return false
}
