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
	case p.Digest.Version != zk.DigestVersion && r.trust.tree == likenessFuzzy:
	case p.Digest.Version != zk.DigestVersion:
		r.tree.KeepDigest()
	case p.Digest == r.tree.Digest():
		r.trust.compared(true)
		r.noteDiffers(0)
		r.tree.KeepDigest()
	case r.trust.tree != likenessFuzzy:
		r.trust.compared(false)
		r.counts.DigestMismatches++
		r.effects.Diverged = append(r.effects.Diverged, p.header.Zxid)
		if !r.ensemble.standalone() {
			r.diverged(p.header.Zxid)
		}
	}
}

// diverged tells the peer, which has it judged who is wrong. The digests of an earlier epoch
// are no judgement on the leader of this one: its learners wait for its own. A leader that
// delivers what another one had left gives up its role for it, unless that is no news: it had
// found the same while it followed that one.
func (r *Replica) diverged(zxid zk.Zxid) {
	known, leads := r.trust.differs, r.peer.State() == zab.Leading
	if !leads {
		r.noteDiffers(zxid)
	}
	if epoch, _ := r.peer.Epochs(); zxid.Epoch() == epoch || leads && !known {
		r.order(zab.Event{Kind: zab.EventDiverged})
	}
}

// noteDiffers has the disk keep in mind that digests differ from a zxid on, or, with 0, that
// they do no more. By the log alone the next start could not tell a leader whose tree is wrong
// from a disk that has lost a record: it would ask that leader for its tree.
func (r *Replica) noteDiffers(from zk.Zxid) {
	if r.trust.noteDiffers(from > 0) {
		r.effects.Disk = append(r.effects.Disk, DiskOp{Kind: DiskNoteDiffers, Zxid: from})
	}
}

// doubtTick takes the tree for what it is, if nobody leads who could send another.
func (r *Replica) doubtTick() {
	if r.trust.doubt != doubtTree || r.role.reloading || !r.peer.Quiet() || r.now.MonoMs-r.role.lookingMs < r.opts.Zab.SyncMs {
		return
	}
	r.trust.restore()
	r.role.renew()
	r.election.succeeded()
	r.election.begin()
	r.look()
}
