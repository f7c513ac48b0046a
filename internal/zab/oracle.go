package zab

import "github.com/conclave-project/conclave/internal/quorum"

// An ensemble of two participants goes on without either of them only if somebody from outside
// says which one: the oracle. Its permission is the operator's promise that the other one does not
// decide meanwhile, and that this one has all that was committed. With that a server leads
// without another, and commits what it has on its own disk. But while the other participant is
// there, it counts as ever: so a server that has followed to the end has all, and may be the one to
// whom the permission goes next.

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

// noteEpoch stores the leader's epoch as its current one, unless that is done or under way. Of a
// quorum that has promised the epoch each knows that it is used. A server that goes on by the
// oracle's permission has promised it to itself, and may end before it decides anything: then
// the other one, with the permission, goes on without knowing of this epoch, in a lower one. So
// this server waits for the other one's promise, or for its own first record. Otherwise it would
// be elected for an epoch in which nothing was decided, and what the other one decided be cut.
func (p *Peer) noteEpoch() {
	if !p.lead.noted {
		p.lead.noted = true
		p.establish(p.lead.epoch)
	}
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
