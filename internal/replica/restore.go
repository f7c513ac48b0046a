package replica

import (
	"slices"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// RestoreSession adds a session of a snapshot.
func (r *Replica) RestoreSession(id zk.SessionID, timeoutMs int32) {
	r.sessions.Open(id, timeoutMs, r.now.MonoMs)
}

// Replay applies a transaction from the log, during a restart. It tells whether
// the digest, if the transaction has one, is that of the tree.
func (r *Replica) Replay(h *zk.TxnHeader, t *zk.Txn, digest zk.Digest) (equal bool) {
	r.tree.Apply(h, t, &r.applied)
	switch t.Op {
	case zk.OpCreateSession:
		r.sessions.Open(h.Session, t.TimeoutMs, r.now.MonoMs)
	case zk.OpCloseSession:
		r.sessions.Remove(h.Session)
	}
	return digest.Version != zk.DigestVersion || digest == r.tree.Digest()
}

// findOrphans returns the sessions that own ephemerals but do not exist: an
// older server left them.
func (r *Replica) findOrphans() []zk.SessionID {
	var ids []zk.SessionID
	for _, id := range r.tree.EphemeralOwners() {
		if r.sessions.Get(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// Leases returns the sessions as a snapshot stores them: those whose creation
// has been delivered. One that is still on its way may be lost in a crash, and
// a snapshot must not have it then.
func (r *Replica) Leases() []session.Lease {
	coming := map[zk.SessionID]bool{}
	for i := r.queue.head; i < len(r.queue.all); i++ {
		if p := &r.queue.all[i]; p.txn.Op == zk.OpCreateSession {
			coming[p.header.Session] = true
		}
	}
	return slices.DeleteFunc(r.sessions.Leases(), func(l session.Lease) bool { return coming[l.ID] })
}
