package replica

import (
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/zk"
)

// Audited describes what a committed transaction did for a client of this server, or to the
// ephemerals of a session that has ended. It is for a log of who has changed what.
type Audited struct {
	Session zk.SessionID
	Asked   *Asked      // nil: ephemerals were deleted with their session
	Code    zk.Code     // result of the request
	Path    string      // of the new znode, or of what a transaction has changed
	Parts   []zk.Result // of a multi
	Deleted []string    // ephemerals that were deleted
}

// Asked is a write and the identities of the client that asked for it. It is kept until the
// write is delivered, even if the client disconnects meanwhile. The shell must not keep one
// beyond the step.
type Asked struct {
	Request    *zk.Request
	Identities []zk.Identity
}

// keepAsked returns what to report about a client's write when it is delivered; nil without
// auditing.
func (r *Replica) keepAsked(p *parked) *Asked {
	if !r.opts.Audit {
		return nil
	}
	a := r.effects.anAsked()
	a.Request, a.Identities = p.request, p.identities
	if len(p.body) > askedAsItIs {
		a.Request = named(p.request)
	}
	return a
}

// askedAsItIs is the size up to which a request is kept with its data. The request points into
// the bytes that were received and so keeps them alive, and the limit on those bytes forgets a
// connection that has gone.
const askedAsItIs = 4 << 10

// named copies a request without its data.
func named(req *zk.Request) *zk.Request {
	out := &zk.Request{Op: req.Op, Path: strings.Clone(req.Path), Mode: req.Mode, ACL: slices.Clone(req.ACL)}
	for i := range out.ACL {
		id := &out.ACL[i].Identity
		id.Scheme, id.ID = strings.Clone(id.Scheme), strings.Clone(id.ID)
	}
	if len(req.Ops) > 0 {
		out.Ops = make([]zk.Request, len(req.Ops))
	}
	for i := range req.Ops {
		op := &req.Ops[i] // the ACL of a create within a multi is not reported
		out.Ops[i] = zk.Request{Op: op.Op, Path: strings.Clone(op.Path), Mode: op.Mode}
	}
	return out
}

// audit records the outcome of the transaction that was just applied. A request that was
// refused by its transaction is recorded too: a request for a change has a result in any case.
func (r *Replica) audit(p *proposal, w *waiting) {
	if !r.opts.Audit {
		return
	}
	invariant.Check(r.locked, "replica: what was applied is looked at while others may read (replica-R4)")
	if p.Txn.Op == zk.OpCloseSession {
		r.auditEnd(p.header.Session)
		return
	}
	if w.asked == nil {
		return
	}
	res := &r.applied.Result
	r.effects.Audited = append(r.effects.Audited, Audited{
		Session: w.session, Asked: w.asked, Code: res.Code, Path: res.Path, Parts: res.Sub,
	})
}

// auditEnd records the ephemerals that were deleted with a session.
func (r *Replica) auditEnd(id zk.SessionID) {
	var deleted []string
	for i := range r.applied.Changes {
		if c := &r.applied.Changes[i]; c.Type == zk.EventNodeDeleted {
			deleted = append(deleted, c.Path)
		}
	}
	if len(deleted) > 0 {
		r.effects.Audited = append(r.effects.Audited, Audited{Session: id, Deleted: deleted})
	}
}
