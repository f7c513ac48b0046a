package replica

import (
	"github.com/conclave-project/conclave/internal/tally"
	"github.com/conclave-project/conclave/zk"
)

// Tallies are distributions and names since the start, for metrics. They belong to the replica:
// a shell reads them between two steps, and copies them.
type Tallies struct {
	// Times from when a leader decided a transaction to its delivery here while clients are
	// served, in milliseconds of the two servers' wall clocks: Decided for what this server had
	// decided, Followed for what came from a leader.
	Decided, Followed tally.Distribution

	// Number of connections that were notified of a change, where there was at least one.
	Created, Deleted, Changed, Children tally.Distribution

	// Writes that were delivered, with the lengths of path and data, and writes that a hard
	// quota has refused here, by the first name of the path.
	Written, OverQuota tally.Names
}

// Tallies returns them. Only the goroutine that steps the replica may use them.
func (r *Replica) Tallies() *Tallies { return &r.tallies }

// Clone returns a copy that does not change.
func (t *Tallies) Clone() Tallies {
	out := *t
	out.Written, out.OverQuota = t.Written.Clone(), t.OverQuota.Clone()
	return out
}

// measure counts a transaction that is delivered. A transaction that was decided in an earlier
// role is ignored: its age says nothing about the time it took to get here.
func (r *Replica) measure(p *proposal, own bool) {
	if !r.role.serving() {
		return
	}
	t := &r.tallies
	t.write(&p.Txn)
	for i := range p.Txn.Sub {
		t.write(&p.Txn.Sub[i])
	}
	took := r.now.WallMs - p.header.Time
	switch {
	case took < 0: // the clocks differ
	case own:
		t.Decided.Note(took, 1)
	default:
		t.Followed.Note(took, 1)
	}
}

// write counts a change by its namespace.
func (t *Tallies) write(x *zk.Txn) {
	switch x.Op {
	case zk.OpError, zk.OpCheck, zk.OpMulti, zk.OpCreateSession, zk.OpCloseSession:
		return
	}
	if name := tally.Namespace(x.Path); name != "" {
		t.Written.Note(name, 1, int64(len(x.Path)+len(x.Data)))
	}
}

// fired counts the connections that were notified of a change.
func (t *Tallies) fired(kind zk.EventType, conns int) {
	if conns == 0 {
		return
	}
	switch kind {
	case zk.EventNodeCreated:
		t.Created.Note(int64(conns), 1)
	case zk.EventNodeDeleted:
		t.Deleted.Note(int64(conns), 1)
	case zk.EventNodeDataChanged:
		t.Changed.Note(int64(conns), 1)
	case zk.EventNodeChildrenChanged:
		t.Children.Note(int64(conns), 1)
	}
}
