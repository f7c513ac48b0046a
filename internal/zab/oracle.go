package zab

import "github.com/conclave-project/conclave/internal/quorum"

// An ensemble of two participants goes on without either of them only if somebody from outside
// says which one: the oracle. Its permission is the operator's promise that the other one does not
// decide meanwhile, and that this one has all that was committed. With that a server leads
// without another, and commits what it has on its own disk. But while the other participant is
// there, it counts as ever: so a server that has followed to the end has all, and may be the one to
// whom the permission goes next.

// Forbid takes the oracle's permission back before the next step, which looks at the time before
// anything else. An event says the same, and what follows from it.
func (p *Peer) Forbid() { p.alone = false }

// onOracle takes the oracle's permission, or loses it.
func (p *Peer) onOracle(e *Event) {
	p.alone = e.OK
	switch {
	case p.lead == nil || p.opts.Solo:
	case p.alone:
		p.tryEpoch()
		p.tryDiscovered()
		p.tryEstablished()
		p.tryCommit()
	case p.lead.stage == leaderServing && !p.hasQuorum():
		p.leave(ReasonQuorumLost)
	}
}

// enough reports whether participants, this server among them, may establish an epoch.
func (p *Peer) enough(set quorum.Set, have quorum.IDs) bool { return set.Enough(have) || p.alone }

// decides reports whether participants may decide something in an epoch: a quorum, or this
// server by the oracle's permission.
func (p *Peer) decides(set quorum.Set, have quorum.IDs) bool {
	return set.Enough(have) || p.alone && have.Has(p.opts.ID) && !p.accompanied()
}

// accompanied reports whether another participant is being given the leader's history, or
// has it.
func (p *Peer) accompanied() bool {
	for _, l := range p.lead.links {
		if !l.observer && l.stage >= linkSyncing && p.config.Quorum.Participants().Has(l.server) {
			return true
		}
	}
	return false
}
