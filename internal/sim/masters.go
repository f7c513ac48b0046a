package sim

import (
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// masters draws, for half of the runs with observers, that followers serve the observers
// instead of their leader; for fewer of the seeds up to knownSeeds.
func (p *Plan) masters(r *random) {
	if p.Seed > knownSeeds && r.oneIn(8) {
		p.Observers = max(p.Observers, 2)
	}
	p.Masters = p.Observers > 0 && (p.Seed%8 == 3 || p.Seed > knownSeeds && r.oneIn(2))
}

// masterHands makes a mutant observer master pass a proposal on to its observers at once,
// without waiting for the commit.
func (p *process) masterHands(m *zab.Message) {
	if !p.w.is(MasterUncommitted) || m.Kind != zab.KindProposal {
		return
	}
	for _, id := range sortedKeys(p.links) {
		if l := p.links[id]; l.observes {
			l.write(peerwire.AppendMessage(nil, &zab.Message{Kind: zab.KindInform, Zxid: m.Zxid, Payload: m.Payload}, peerwire.FromLeader))
		}
	}
}

// masterAnswers makes a mutant observer master attach a client's session without asking the
// leader. It reports whether a message was handled in this way.
func (l *link) masterAnswers(m *zab.Message) bool {
	if !l.p.w.is(MasterAnswers) || !l.observes || m.Kind != zab.KindRevalidate {
		return false
	}
	valid := zab.Message{Kind: zab.KindRevalidate, Zxid: zk.NoZxid, Session: m.Session, Valid: true}
	l.write(peerwire.AppendMessage(nil, &valid, peerwire.FromLeader))
	return true
}

// hands reports whether a learner passes a session's heartbeat on to its leader: it is an
// observer master that knows the session.
func (p *process) hands(id zk.SessionID) bool {
	return p.serving && p.replica.Peer().State() == zab.Following && p.replica.Sessions().Get(id) != nil
}
