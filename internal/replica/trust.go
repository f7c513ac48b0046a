package replica

import (
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// doubt is why this server has no vote though its ensemble gives it one.
type doubt uint8

const (
	doubtNothing doubt = iota
	doubtMemory        // it may have forgotten what it has promised, see Recovered.Untrusted
	doubtTree          // the tree is not that of its transactions; another one is on its way
)

// likeness is what is known of the tree beside those of others at its zxid.
type likeness uint8

const (
	likenessUnknown likeness = iota // no digest was compared, or the last one was another
	likenessFuzzy                   // the tree may be ahead of its zxid, so digests may differ
	likenessSame                    // the last digest that was compared was that of the tree
)

// trust is what this server's memory and its tree are worth.
type trust struct {
	doubt        doubt
	tree         likeness
	unready      bool       // a leader's snapshot is not complete: clients have to wait
	needSnapshot bool       // see zab.Stored
	differs      bool       // the disk has noted that digests are not those of the tree
	alone        bool       // and that no ensemble has had this history
	divergedMs   int64      // when the tree was found to be wrong last, 0: never
	loading      zab.LinkID // a SNAP came on it and its state has not come
	base         zk.Zxid    // of that SNAP
}

// voteless reports whether this server has no vote until a leader has sent it
// everything.
func (t *trust) voteless() bool { return t.doubt != doubtNothing }

// wantsSnapshot reports whether the whole state must come from a leader.
func (t *trust) wantsSnapshot() bool { return t.needSnapshot || t.doubt == doubtTree }

// recovered begins with what was found on the disk. A tree that is doubted stays so:
// the disk has it as well.
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

// replaced notes that the tree has become another one.
func (t *trust) replaced() {
	if t.tree == likenessSame {
		t.tree = likenessUnknown
	}
}

// compared notes whether a digest was that of the tree.
func (t *trust) compared(equal bool) {
	t.tree = likenessUnknown
	if equal {
		t.tree = likenessSame
	}
}

// noteDiffers has the disk note whether digests differ; false if it has noted that already.
func (t *trust) noteDiffers(differs bool) (news bool) {
	news = t.differs != differs
	t.differs = differs
	return news
}

// endAlone notes that a quorum of an ensemble has the history; false if that is no news.
func (t *trust) endAlone() (news bool) {
	news, t.alone = t.alone, false
	return news
}

// ahead reports whether the tree may have changes that come after its zxid: readers would
// see parts of them.
func (t *trust) ahead() bool { return t.unready || t.tree == likenessFuzzy }

// current notes that everything has come that the tree was ahead by.
func (t *trust) current() {
	if t.tree == likenessFuzzy {
		t.tree = likenessUnknown
	}
}

// doubtTree has the next peer ask for the whole state, without a vote.
func (t *trust) doubtTree(nowMs int64) { t.doubt, t.divergedMs = doubtTree, nowMs }

// restore ends a doubt: the history has come, or nobody else has it.
func (t *trust) restore() { t.doubt = doubtNothing }

// expectState waits for the state that comes after a SNAP.
func (t *trust) expectState(link zab.LinkID, base zk.Zxid) { t.loading, t.base = link, base }

// stateCame reports whether the state on a link is the one that is waited for. It may
// have changes of transactions that come yet.
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

// synchronized notes that the log is the leader's.
func (t *trust) synchronized() { t.needSnapshot = false }

// ready notes that clients may see the tree.
func (t *trust) ready() { t.unready = false }

// leave ends a role for a reason; reload says that the disk is read again after it.
func (t *trust) leave(e *zab.Effect, nowMs int64) {
	t.loading = 0
	if !e.Reload {
		return
	}
	t.needSnapshot = t.needSnapshot || e.Reason == zab.ReasonCannotTruncate // a SNAP may have broken off since
	if e.Reason == zab.ReasonDiverged {
		t.doubtTree(nowMs)
	}
}
