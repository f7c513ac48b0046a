package replica

import (
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// doubt is why this server does not vote although its ensemble gives it a vote.
type doubt uint8

const (
	doubtNothing doubt = iota
	doubtMemory        // it may have forgotten what it promised, see Recovered.Untrusted
	doubtTree          // the tree is not that of its transactions; another one must be sent
)

// likeness is what is known about the tree compared with the trees of others at its zxid.
type likeness uint8

const (
	likenessUnknown likeness = iota // no digest was compared, or the last one differed
	likenessFuzzy                   // the tree may be ahead of its zxid, so digests may differ
	likenessSame                    // the last compared digest was that of the tree
)

// trust says how far this server's memory and its tree can be trusted.
type trust struct {
	doubt        doubt
	tree         likeness
	unready      bool       // a leader's snapshot is not complete yet: clients have to wait
	needSnapshot bool       // see zab.Stored
	differs      bool       // the disk has stored that digests differ from those of the tree
	alone        bool       // the disk has stored that no ensemble has had this history
	divergedMs   int64      // when the tree was last found to be wrong, 0: never
	loading      zab.LinkID // a SNAP came on it and its state has not come yet
	base         zk.Zxid    // of that SNAP
}

// voteless reports whether this server does not vote until a leader has sent it everything.
func (t *trust) voteless() bool { return t.doubt != doubtNothing }

// wantsSnapshot reports whether a leader must send the whole state.
func (t *trust) wantsSnapshot() bool { return t.needSnapshot || t.doubt == doubtTree }

// recovered starts with what was found on the disk. A tree that is doubted stays so, because
// the disk has the same tree.
func (t *trust) recovered(found *Recovered) {
	t.unready, t.tree, t.differs, t.alone = false, likenessUnknown, found.Differs, found.Alone
	if found.Fuzzy {
		t.tree = likenessFuzzy
	}
	switch {
	case t.doubt == doubtTree:
	case found.Untrusted:
		t.doubt = doubtMemory
	default:
		t.doubt = doubtNothing
	}
}

// replaced records that the tree was replaced by another one.
func (t *trust) replaced() {
	if t.tree == likenessSame {
		t.tree = likenessUnknown
	}
}

// compared records whether a digest was that of the tree.
func (t *trust) compared(equal bool) {
	t.tree = likenessUnknown
	if equal {
		t.tree = likenessSame
	}
}

// noteDiffers records whether digests differ; false if that is already stored on disk.
func (t *trust) noteDiffers(differs bool) (news bool) {
	news = t.differs != differs
	t.differs = differs
	return news
}

// endAlone records that a quorum of an ensemble has the history; false if that is already
// known.
func (t *trust) endAlone() (news bool) {
	news, t.alone = t.alone, false
	return news
}

// ahead reports whether the tree may include changes later than its zxid: readers would see
// parts of them.
func (t *trust) ahead() bool { return t.unready || t.tree == likenessFuzzy }

// current records that every change that the tree was ahead by has come.
func (t *trust) current() {
	if t.tree == likenessFuzzy {
		t.tree = likenessUnknown
	}
}

// doubtTree makes the next peer ask for the whole state, without a vote.
func (t *trust) doubtTree(nowMs int64) { t.doubt, t.divergedMs = doubtTree, nowMs }

// restore ends a doubt: the history has come, or nobody else has it.
func (t *trust) restore() { t.doubt = doubtNothing }

// expectState prepares for the state that follows a SNAP.
func (t *trust) expectState(link zab.LinkID, base zk.Zxid) { t.loading, t.base = link, base }

// stateCame reports whether the state on a link is the expected one. That state may include
// changes of transactions that are still to come.
func (t *trust) stateCame(link zab.LinkID) bool {
	if t.loading != link {
		return false
	}
	t.loading, t.tree, t.unready, t.differs = 0, likenessFuzzy, true, false
	return true
}

// linkDown forgets a SNAP whose link is gone.
func (t *trust) linkDown(link zab.LinkID) {
	if t.loading == link {
		t.loading = 0
	}
}

// synchronized records that the log is the leader's.
func (t *trust) synchronized() { t.needSnapshot = false }

// ready records that clients may see the tree.
func (t *trust) ready() { t.unready = false }

// leave ends a role for a reason. With Reload the disk is read again afterwards.
func (t *trust) leave(e *zab.Effect, nowMs int64) {
	t.loading = 0
	if !e.Reload {
		return
	}
	t.needSnapshot = t.needSnapshot || e.Reason == zab.ReasonCannotTruncate // a SNAP may have been interrupted since
	if e.Reason == zab.ReasonDiverged {
		t.doubtTree(nowMs)
	}
}
