package zab

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// proposeConfig begins a change of the ensemble: this proposal and all behind
// it need a quorum of the old and of the new one until it is committed. One
// change at a time; the replica refuses a second one.
func (p *Peer) proposeConfig(e *Event) {
	invariant.Check(p.next == nil, "zab: a reconfig during a reconfig")
	invariant.Check(e.Config.Version == int64(e.Record.Zxid), "zab: the version of a configuration is its zxid")
	next := *e.Config
	p.next = &next
}

// designated chooses who leads the new ensemble: this server if it votes there,
// else the one of its voters that has the most of what is proposed. It has the
// reconfig itself, or there would be no quorum.
func (p *Peer) designated(zxid zk.Zxid) quorum.ID {
	voters := p.next.Quorum.Voters()
	if voters.Has(p.opts.ID) {
		return p.opts.ID
	}
	best, most := p.opts.ID, zxid-1
	for _, l := range p.lead.links {
		if !l.observer && voters.Has(l.server) && l.acked > most {
			best, most = l.server, l.acked
		}
	}
	return best
}

// activate puts a committed configuration in force. A leader that has no vote
// in it commits nothing more; it returns false then; its learners leave for
// the designated one. A learner's peer does not read configurations: its shell
// does, and stops the role with EventStop when that or the leader changes.
func (p *Peer) activate(designated quorum.ID) bool {
	p.config, p.next = *p.next, nil
	config := p.config
	p.emit(Effect{Kind: EffectActivate, Config: &config, Server: designated})
	if designated != p.opts.ID {
		p.leave(ReasonStopped, false)
		return false
	}
	return true
}
