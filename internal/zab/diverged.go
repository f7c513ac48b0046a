package zab

// A learner that finds its tree to be another one than its leader's transactions
// make cannot know which of the two is wrong: its own, or the leader's, by which
// the digests were worked out. It tells the leader, with a ping that answers none.
//
// A leader of whose participants a quorum says so is the one that is wrong, and
// gives up its role. A learner whose leader still leads a tick later is: by then
// the others have delivered the same transaction, and have said nothing. Who was
// wrong leaves with ReasonDiverged, and has another tree sent. A leader that finds
// the difference itself has no one to ask: its tree is not what it has decided.
//
// Apache's leader takes no notice of the ping.

// onDiverged hears that a digest differs.
func (p *Peer) onDiverged(*Event) {
	switch {
	case p.lead != nil:
		p.leave(ReasonDiverged, true)
	case p.learn != nil && !p.learn.diverged:
		p.learn.diverged = true
		if p.learn.stage == learnerServing {
			p.tellDiverged()
		}
	}
}

func (p *Peer) tellDiverged() {
	p.learn.divergedMs = p.nowMs
	p.send(p.learn.link, Message{Kind: KindPing, Zxid: pingDiverged})
}

// divergedTick leaves a leader that holds on to its own tree.
func (p *Peer) divergedTick() {
	if p.learn.divergedMs != 0 && p.nowMs-p.learn.divergedMs >= p.opts.TickMs {
		p.leave(ReasonDiverged, true)
	}
}

// judge ends the role of a leader of whose participants a quorum has other trees.
func (p *Peer) judge() {
	others := p.participants(false, func(l *link) bool { return l.stage == linkServing && l.diverged })
	if p.verifier(p.history.last).Enough(others) {
		p.leave(ReasonDiverged, true)
	}
}
