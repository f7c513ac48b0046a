package zab

import (
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// A server can find that its tree differs from the one that its leader's transactions should
// produce. It cannot know which of the two is wrong: its own tree, or the leader's, from which
// the digests were computed. So it keeps its tree and tells the leader in an unasked ping (one
// that answers no ping of the leader's). A server whose tree is the same says so in each answer
// to a ping, with the zxid up to which it has compared.
//
// The leader judges by what servers have reported in its epoch, whether they are still
// connected or not. If a quorum differs, the leader's own tree is wrong: it gives up its role
// with ReasonDiverged and gets another tree. If a quorum that includes the leader has the same
// tree at a zxid after the difference, the server that differs is wrong, and it is sent the
// whole state. Otherwise nobody knows, and no tree is replaced, because that could spread the
// wrong tree to all servers.
//
// A leader that finds the difference itself has nobody to ask: its tree is not what it has
// decided. An Apache leader ignores the zxids of pings and does not judge.

// divergedGapMs is the minimum time between two occasions on which a server gives up its tree,
// and on which it is sent another tree. The fault may be in the digest itself, in which case
// all servers would find the same difference.
const divergedGapMs = 10 * 60_000

// viewsMax bounds the number of servers whose reports a leader remembers.
const viewsMax = 1024

// view is what a leader has learned of a server's tree in its epoch.
type view struct {
	server      quorum.ID
	participant bool
	differs     zk.Zxid // what was committed when it reported a different tree; 0: it did not
	agrees      zk.Zxid // up to this zxid its tree was the leader's
	wrong       bool    // it must be sent the whole state
	sentMs      int64   // when it was last sent the whole state; 0: never
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
		ld.views = slices.Delete(ld.views, 0, 1) // forgetting the oldest only means knowing less
	}
	ld.views = append(ld.views, view{server: l.server, participant: !l.observer})
	return &ld.views[len(ld.views)-1]
}

// isWrong reports whether a learner must be sent the whole state.
func (ld *leader) isWrong(l *link) bool { return len(ld.views) > 0 && ld.viewOf(l).wrong }

// PingSame is the zxid in the answer to a ping that says that the learner's tree at a zxid,
// which has an epoch, is that of the leader's transactions.
func PingSame(at zk.Zxid) zk.Zxid { return ^at }

// noteTree records what a ping reports about the learner's tree.
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

// judge decides whose tree is wrong.
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
			p.dropServer(v.server, nil) // it will connect again
		}
	}
}

// views collects the participants whose view satisfies holds, and the leader itself if self is
// set.
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

// replaced records that a learner has taken over the whole state.
func (p *Peer) replaced(l *link) {
	if p.lead.isWrong(l) {
		v := p.lead.viewOf(l)
		v.differs, v.agrees, v.wrong, v.sentMs = 0, 0, false, p.nowMs
	}
}

// onDiverged handles the discovery that a digest differs on this server.
func (p *Peer) onDiverged(*Event) {
	switch {
	case p.lead != nil:
		p.giveTreeUp()
	case p.learn != nil && !p.learn.diverged:
		p.learn.diverged = true
		if p.BehindMaster() {
			p.toLeader = true // the leader judges, not the observer master
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

// giveTreeUp ends the role of a leader whose tree is wrong, unless it has done so a short while
// ago.
func (p *Peer) giveTreeUp() {
	if p.opts.DivergedMs == 0 || p.nowMs-p.opts.DivergedMs >= divergedGapMs {
		p.leave(ReasonDiverged)
	}
}
