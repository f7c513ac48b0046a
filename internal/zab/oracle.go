package zab

import "github.com/conclave-project/conclave/internal/quorum"

// An ensemble of two participants can go on with only one of them if something outside decides
// which one: the oracle. Its permission is the operator's promise that the other participant
// decides nothing meanwhile, and that this one has everything that was committed. With that
// permission a server leads by itself, and commits what is on its own disk. But while the other
// participant is connected, its acks are still needed. So a server that followed until the end
// has everything, and the permission may go to it next.

// Forbid withdraws the oracle's permission before the next step, because a step handles the
// time before its events. An event must say the same, with all its consequences.
func (p *Peer) Forbid() { p.alone = false }

// onOracle handles a permission of the oracle, or its withdrawal.
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

// decides reports whether participants may decide something within an epoch: because they are a
// quorum, or because this server has the oracle's permission.
func (p *Peer) decides(set quorum.Set, have quorum.IDs) bool {
	return set.Enough(have) || p.alone && have.Has(p.opts.ID) && !p.accompanied()
}

// accompanied reports whether another participant has the leader's history or is being sent it.
func (p *Peer) accompanied() bool {
	for _, l := range p.lead.links {
		if !l.observer && l.stage >= linkSyncing && p.config.Quorum.Participants().Has(l.server) {
			return true
		}
	}
	return false
}
