package zab

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// proposeConfig begins a change of the ensemble. Until the reconfig is committed, it and all
// later proposals need a quorum of both the old and the new ensemble. Only one change is
// possible at a time; the replica refuses a second one.
func (p *Peer) proposeConfig(e *Event) {
	invariant.Check(p.next == nil, "zab: a reconfig during a reconfig")
	invariant.Check(e.Config.Version == int64(e.Record.Zxid), "zab: the version of a configuration is its zxid")
	next := *e.Config
	p.next = &next
}

// InStep reports whether the participants that receive this leader's proposals, itself
// included, are a quorum of a set. It guards a reconfig: a change to an ensemble that could not
// commit would be the end of it. A participant that is still taking over the history counts, as
// with an Apache leader: the change waits for it.
func (p *Peer) InStep(set quorum.Set) bool {
	return p.lead != nil && set.Enough(p.participants(true, func(l *link) bool { return l.stage >= linkSyncing }))
}

// designated chooses the leader of the new ensemble: this server if it votes there, otherwise
// the participant of the new ensemble that has acknowledged the most. That participant has the
// reconfig itself, or there would be no quorum. A server of weight 0 has no vote and is not
// chosen, because nobody would join it.
func (p *Peer) designated() quorum.ID {
	participants := p.next.Quorum.Participants()
	votes := func(id quorum.ID) bool { return participants.Has(id) && p.next.Quorum.Weight(id) > 0 }
	if votes(p.opts.ID) {
		return p.opts.ID
	}
	best, most := p.opts.ID, zk.NoZxid
	for _, l := range p.lead.links {
		if !l.observer && l.stage >= linkSynced && votes(l.server) && l.acked > most {
			best, most = l.server, l.acked
		}
	}
	return best
}

// activate puts a committed configuration in force on the leader. A leader that has no vote in
// it must commit nothing more: then activate returns false, and the learners leave for the
// designated leader.
func (p *Peer) activate(designated quorum.ID) bool {
	p.config, p.next = *p.next, nil
	p.emit(Effect{Kind: EffectActivate, Zxid: zk.Zxid(p.config.Version), Server: designated})
	if designated != p.opts.ID {
		p.leave(ReasonStopped)
		return false
	}
	return true
}

// onConfig handles a configuration that the peer cannot read itself: one in a learner's
// records. If the role or the leader changes with it, EventStop follows.
func (p *Peer) onConfig(e *Event) {
	config := *e.Config
	switch {
	case !e.OK && config.Version > p.config.Version:
		p.next = &config
	case e.OK && config.Version >= p.config.Version:
		p.config = config
		if p.next != nil && p.next.Version <= config.Version {
			p.next = nil
		}
	}
}

// lastSeen returns the newest configuration, whether it is in force or not.
func (p *Peer) lastSeen() *Config {
	if p.next != nil {
		return p.next
	}
	return &p.config
}

// toldConfig returns the configuration that NEWLEADER carries: the newest one. An observer
// master sends only a committed one.
func (p *Peer) toldConfig() *Config {
	if p.lead == nil && p.next != nil && p.next.Version > int64(p.delivered) {
		return &p.config
	}
	return p.lastSeen()
}

// forgetConfig drops a proposed configuration whose record is truncated.
func (p *Peer) forgetConfig(last zk.Zxid) {
	if p.next != nil && p.next.Version > int64(last) {
		p.next = nil
	}
}

// serveActivate handles the commit of a reconfig. Before UPTODATE it is handled as a plain
// commit, and the configuration takes effect when the learner serves.
func (p *Peer) serveActivate(m *Message) {
	p.serveCommit(m)
	p.learnerActivated(m)
}

// observeActivate handles the INFORM of a reconfig.
func (p *Peer) observeActivate(m *Message) {
	p.observeInform(m)
	p.learnerActivated(m)
}

// learnerActivated tells the shell that a configuration is in force, if its record was
// delivered.
func (p *Peer) learnerActivated(m *Message) {
	if p.learn != nil && p.delivered == m.Zxid {
		p.emit(Effect{Kind: EffectActivate, Zxid: m.Zxid, Server: m.Leader})
	}
}

// activateOld puts a configuration in force that an earlier leader proposed: it is part of the
// history, which is committed now. It returns false if this leader has to leave its role.
func (p *Peer) activateOld() bool {
	if p.next == nil || p.next.Version > int64(p.history.last) {
		return true
	}
	return p.activate(p.designated())
}
