package replica

import (
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// A transaction carries the digest of the tree that it produces. The leader computes it before
// any server applies the transaction. A server whose tree has a different digest would show,
// now or later, something that the others do not. Its log is sound, because that is compared
// record by record; its tree is not. The leader determines which server is wrong
// (zab/diverged.go).
//
// A learner that is wrong is sent the leader's whole state. A leader that is wrong leaves its
// role, reads its disk again, and takes no part in elections until another leader has sent its
// state. Meanwhile the other servers elect one whose tree is right. If they cannot go on
// without it, it continues with the tree that it has: what its log has produced is better than
// no service.

// compare compares the digest of a transaction with the tree. After a fuzzy snapshot the tree
// is ahead of its zxid for a while.
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

// diverged reports a difference to the peer, which has the leader judge who is wrong. A digest
// of an earlier epoch proves nothing about the leader of this one, so its learners wait for
// digests of its own. A leader that delivers what an earlier leader left gives up its role for
// a difference, unless it is already known: the server had found it while it followed that
// leader.
func (r *Replica) diverged(zxid zk.Zxid) {
	known, leads := r.trust.differs, r.peer.State() == zab.Leading
	if !leads {
		r.noteDiffers(zxid)
	}
	if epoch, _ := r.peer.Epochs(); zxid.Epoch() == epoch || leads && !known {
		r.order(zab.Event{Kind: zab.EventDiverged})
	}
}

// noteDiffers stores on disk that digests differ from a zxid on or, with 0, that they no longer
// do. From the log alone the next start could not distinguish a leader whose tree is wrong from
// a disk that has lost a record, and would ask that leader for its tree.
func (r *Replica) noteDiffers(from zk.Zxid) {
	if r.trust.noteDiffers(from > 0) {
		r.effects.Disk = append(r.effects.Disk, DiskOp{Kind: DiskNoteDiffers, Zxid: from})
	}
}

// doubtTick accepts the doubted tree if there is no leader that could send another one.
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
