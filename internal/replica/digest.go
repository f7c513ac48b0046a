package replica

import (
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// A transaction carries the digest of the tree that it makes, as the leader has
// worked it out before anybody applied it. A server whose tree has another one
// would show what the others do not, now or later. Its log is sound, for that is
// compared record by record; its tree is not. The leader finds out which server is
// wrong (zab/diverged.go). A learner is sent the leader's whole state. A leader leaves
// its role, reads its disk again, and takes no part in elections until another one has
// sent its state: the others elect one of those whose trees are right. If they cannot
// do without it, it goes on with the tree that it has: it is better to serve what its
// log has made than nothing.

// compare looks at the digest. After a fuzzy snapshot the tree is ahead of its
// zxid for a while.
func (r *Replica) compare(p *proposal) {
	switch {
	case p.digest.Version != zk.DigestVersion && r.fuzzy:
	case p.digest.Version != zk.DigestVersion:
		r.tree.KeepDigest()
	case p.digest == r.tree.Digest():
		r.fuzzy, r.same = false, true
		r.tree.KeepDigest()
	case !r.fuzzy:
		r.same = false
		r.counts.DigestMismatches++
		r.effects.Diverged = append(r.effects.Diverged, p.header.Zxid)
		if r.config != nil {
			r.order(zab.Event{Kind: zab.EventDiverged})
		}
	}
}

// doubtTree has the next peer ask for the whole state, without a vote.
func (r *Replica) doubtTree() { r.wrongTree, r.untrusted, r.divergedMs = true, true, r.now.MonoMs }

// doubtTick takes the tree for what it is, if nobody leads who could send another.
func (r *Replica) doubtTick() {
	if !r.wrongTree || r.reloading || !r.peer.Quiet() || r.now.MonoMs-r.lookingMs < r.opts.SyncMs {
		return
	}
	r.wrongTree, r.untrusted, r.reborn, r.fruitless, r.lookAtMs = false, false, true, 0, 0
	r.look()
}
