package zab

import (
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// A server that finds its tree to be another one than its leader's transactions
// make cannot know which of the two is wrong: its own, or the leader's, by which
// the digests were worked out. So it keeps its tree, and tells the leader with a
// ping that answers none. One whose tree is the same says so in each answer to a
// ping, with the zxid up to which it has compared.
//
// The leader judges, by what servers have reported in its epoch, whether they are still
// connected or not. If a quorum differs, its own tree is wrong: it gives up its role with
// ReasonDiverged, and has another tree sent. If a quorum, itself among them, has the
// same tree at a zxid after that of the difference, the one that differs is wrong:
// it is sent the whole state. Otherwise nobody knows, and no tree is replaced by
// another: to send one could make the wrong tree that of all.
//
// A leader that finds the difference itself has no one to ask: its tree is not what
// it has decided. Apache's leader looks at no zxid of a ping, and judges nobody.

// divergedGapMs is how often a server gives its tree up at most, and how often it is
// sent another: the fault may be in the digest itself, which all would find alike.
const divergedGapMs = 10 * 60_000

// viewsMax bounds the servers of which a leader remembers what they reported.
const viewsMax = 1024

// view is what a leader has learned of a server's tree in its epoch.
type view struct {
	server      quorum.ID
	participant bool
	differs     zk.Zxid // what was committed when it said that its tree is another; 0: it did not
	agrees      zk.Zxid // up to here its tree was the leader's
	wrong       bool    // it is to have the whole state
	sentMs      int64   // when it had that; 0: never
}

// viewOf returns what is known of a learner's tree.
func (ld *leader) viewOf(l *link) *view {
	for i := range ld.views {
		if v := &ld.views[i]; v.server == l.server {
			v.participant = !l.observer
			return v
		}
	}
	if len(ld.views) == viewsMax {
		ld.views = slices.Delete(ld.views, 0, 1) // less is known then
	}
	ld.views = append(ld.views, view{server: l.server, participant: !l.observer})
	return &ld.views[len(ld.views)-1]
}

// isWrong reports whether a learner is to have the whole state.
func (ld *leader) isWrong(l *link) bool { return len(ld.views) > 0 && ld.viewOf(l).wrong }

// PingSame is the zxid in a ping's answer that says that the tree at a zxid, which has
// an epoch, is that of the leader's transactions.
func PingSame(at zk.Zxid) zk.Zxid { return ^at }

// noteTree takes what a ping reports of the learner's tree.
func (p *Peer) noteTree(l *link, said zk.Zxid) {
	v := p.lead.viewOf(l)
	switch same := ^said; {
	case said == pingDiverged && v.differs == 0:
		v.differs = max(p.lead.committed, 1)
	case said == pingDiverged:
	case same >= v.differs && same <= p.lead.committed:
		v.differs, v.agrees = 0, max(v.agrees, same)
	}
}

// judge finds out whose tree is wrong.
func (p *Peer) judge() {
	enough := p.verifier(p.history.last).Enough
	if enough(p.views(false, func(v *view) bool { return v.differs != 0 })) {
		p.giveTreeUp()
		return
	}
	for i := range p.lead.views {
		v := &p.lead.views[i]
		if v.differs == 0 || v.wrong || v.sentMs != 0 && p.nowMs-v.sentMs < divergedGapMs {
			continue
		}
		same := p.views(true, func(other *view) bool { return other.differs == 0 && other.agrees >= v.differs })
		if v.wrong = enough(same); v.wrong {
			p.dropServer(v.server, nil) // it comes again
		}
	}
}

// views collects the participants of whom something is known, and the leader itself if self.
func (p *Peer) views(self bool, holds func(*view) bool) quorum.IDs {
	ld := p.lead
	ld.scratch = ld.scratch[:0]
	if self {
		ld.scratch.Add(p.opts.ID)
	}
	for i := range ld.views {
		if v := &ld.views[i]; v.participant && holds(v) {
			ld.scratch.Add(v.server)
		}
	}
	return ld.scratch
}

// replaced notes that a learner has taken over the whole state.
func (p *Peer) replaced(l *link) {
	if p.lead.isWrong(l) {
		v := p.lead.viewOf(l)
		v.differs, v.agrees, v.wrong, v.sentMs = 0, 0, false, p.nowMs
	}
}

// onDiverged learns that a digest differs here.
func (p *Peer) onDiverged(*Event) {
	switch {
	case p.lead != nil:
		p.giveTreeUp()
	case p.learn != nil && !p.learn.diverged:
		p.learn.diverged = true
		if p.BehindMaster() {
			p.toLeader = true // which judges
			p.leave(ReasonMasterJudges)
			return
		}
		if p.learn.stage == learnerServing {
			p.tellDiverged()
		}
	}
}

func (p *Peer) tellDiverged() {
	p.send(p.learn.link, Message{Kind: KindPing, Zxid: pingDiverged})
}

// giveTreeUp ends the role of a leader whose tree is wrong, unless it has been
// through this a short while ago.
func (p *Peer) giveTreeUp() {
	if p.opts.DivergedMs == 0 || p.nowMs-p.opts.DivergedMs >= divergedGapMs {
		p.leave(ReasonDiverged)
	}
}
