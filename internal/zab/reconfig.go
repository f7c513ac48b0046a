package zab

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// proposeConfig begins a change of the ensemble: this proposal and all after
// it need a quorum of the old and of the new one until it is committed. One
// change at a time; the replica refuses a second one.
func (p *Peer) proposeConfig(e *Event) {
	invariant.Check(p.next == nil, "zab: a reconfig during a reconfig")
	invariant.Check(e.Config.Version == int64(e.Record.Zxid), "zab: the version of a configuration is its zxid")
	next := *e.Config
	p.next = &next
}

// InStep reports whether the participants that get this leader's proposals,
// itself included, are a quorum of a set: a change to an ensemble that could not
// commit would be its end. One that still takes over the history counts, as with
// Apache's leader: the change waits for it.
func (p *Peer) InStep(set quorum.Set) bool {
	return p.lead != nil && set.Enough(p.participants(true, func(l *link) bool { return l.stage >= linkSyncing }))
}

// designated chooses who leads the new ensemble: this server if it votes there,
// else the one of its participants that has the most of what is proposed. It has the
// reconfig itself, or there would be no quorum. One of weight 0 votes nowhere: nobody would
// join it.
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

// activate puts a committed configuration in force on the leader. One that has no
// vote in it commits nothing more; it returns false then, and its learners leave
// for the designated one.
func (p *Peer) activate(designated quorum.ID) bool {
	p.config, p.next = *p.next, nil
	p.emit(Effect{Kind: EffectActivate, Zxid: zk.Zxid(p.config.Version), Server: designated})
	if designated != p.opts.ID {
		p.leave(ReasonStopped)
		return false
	}
	return true
}

// onConfig tells a peer of a configuration that it does not read itself: those in
// a learner's records. If role or leader change with it, EventStop comes too.
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

// lastSeen is the newest configuration, in force or not.
func (p *Peer) lastSeen() *Config {
	if p.next != nil {
		return p.next
	}
	return &p.config
}

// toldConfig is the configuration that NEWLEADER carries: the newest one, but of an observer
// master one that is committed.
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

// serveActivate is a reconfig's commit. What comes before UPTODATE is a plain
// commit: it comes in force when the learner serves.
func (p *Peer) serveActivate(m *Message) {
	p.serveCommit(m)
	p.learnerActivated(m)
}

// observeActivate is a reconfig's inform.
func (p *Peer) observeActivate(m *Message) {
	p.observeInform(m)
	p.learnerActivated(m)
}

// learnerActivated tells the shell, if the record was delivered.
func (p *Peer) learnerActivated(m *Message) {
	if p.learn != nil && p.delivered == m.Zxid {
		p.emit(Effect{Kind: EffectActivate, Zxid: m.Zxid, Server: m.Leader})
	}
}

// activateOld puts a configuration in force that an older leader has proposed:
// it is in the history, which is committed now. It returns false if this leader
// has to leave.
func (p *Peer) activateOld() bool {
	if p.next == nil || p.next.Version > int64(p.history.last) {
		return true
	}
	return p.activate(p.designated())
}
