package zab

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// NextZxid returns the zxid that the leader's next proposal must have. It is only meaningful
// while the leader serves.
func (p *Peer) NextZxid() zk.Zxid {
	if p.lead == nil {
		return zk.NoZxid
	}
	return p.After(p.lead.proposed)
}

// After returns the zxid that follows zxid. When the counter of an epoch is used up, a
// standalone server continues in a new epoch; a leader has to be elected again
// (ZOOKEEPER-1277).
func (p *Peer) After(zxid zk.Zxid) zk.Zxid {
	if p.opts.Solo && zxid.Counter() >= p.opts.CounterMax-1 {
		return zk.MakeZxid(zxid.Epoch()+1, 1)
	}
	return zxid + 1
}

// onPropose appends a transaction to the leader's own log and sends it to all learners. A
// transaction that was decided before the leader left its role is dropped, and its client gets
// no answer.
func (p *Peer) onPropose(e *Event) {
	if p.lead == nil || p.lead.stage != leaderServing {
		return
	}
	ld := p.lead
	if e.Record.Zxid.Counter() >= p.opts.CounterMax {
		p.leave(ReasonCounter) // counting starts again in a new epoch
		return
	}
	invariant.Check(e.Record.Zxid == p.NextZxid(), "zab: proposals are not in order (zab-Z4)")
	if p.opts.Solo && e.Record.Zxid.Epoch() > p.accepted {
		p.nextAlone()
	}
	if e.Config != nil {
		p.proposeConfig(e)
	}
	ld.proposed = e.Record.Zxid
	p.append(e.Record)
	for _, l := range ld.links {
		if l.stage >= linkSyncing && !l.observer {
			p.propose(l, e.Record)
		}
	}
}

// leaderAck counts an ack. The second answer to NEWLEADER has no counter and
// is ignored.
func (p *Peer) leaderAck(l *link, m *Message) {
	p.noteAck(l, m.Zxid)
	p.tryCommit()
}

// noteAck remembers how far a learner's log reaches. Acks arrive in log order, so an ack also
// covers all records before it. An ack for a record that was never sent closes the link.
func (p *Peer) noteAck(l *link, zxid zk.Zxid) {
	if zxid.Counter() == 0 || zxid <= l.acked || l.observer {
		return
	}
	if zxid > l.queued {
		p.drop(l)
		return
	}
	l.acked = zxid
	if l.waitsFor == 0 || zxid < l.waitsFor {
		return
	}
	l.waitsFor, l.waitsMs = 0, p.nowMs
	if zxid < l.queued {
		l.waitsFor = zxid + 1
	}
}

// tryCommit commits, in order, what a quorum has on disk (zab-Z7). An ack counts only if its
// learner has taken over the leader's history: the leader in the paper receives no acks before
// that.
func (p *Peer) tryCommit() {
	if p.lead == nil || p.lead.stage != leaderServing {
		return
	}
	for {
		rest := p.history.after(p.lead.committed)
		if len(rest) == 0 {
			break
		}
		r := rest[0]
		have := p.participants(p.durable >= r.Zxid, func(l *link) bool {
			return l.stage >= linkSynced && l.acked >= r.Zxid
		})
		if !p.decides(p.verifier(r.Zxid), have) || p.syncBefore(r.Zxid) {
			break
		}
		if !p.commit(r) {
			return
		}
	}
	p.tellCommits()
	p.goOnHeld()
	p.history.trim(p.opts.HistoryMax, p.opts.HistoryBytes, p.delivered)
	p.trySyncs()
}

// syncBefore reports whether a sync is waiting that arrived before the proposal of zxid. Such a
// sync must be answered before the proposal is committed: an Apache learner has one queue for
// writes and syncs, and an answer out of order would block it for good. The wait is short,
// because a learner that acknowledges a proposal has already answered the pings sent before it.
func (p *Peer) syncBefore(zxid zk.Zxid) bool {
	p.trySyncs()
	return len(p.lead.syncs) > 0 && p.lead.syncs[0].after < zxid
}

// commit announces the commit of r to all learners; those on cumulative links may be told
// later, by tellCommits. It returns false if the leader has to leave its role.
func (p *Peer) commit(r Record) bool {
	p.lead.committed = r.Zxid
	kind, designated := KindCommit, p.opts.ID
	if p.next != nil && int64(r.Zxid) == p.next.Version {
		p.tellCommits()
		kind, designated = KindCommitAndActivate, p.designated()
	}
	for _, l := range p.lead.links {
		switch {
		case l.observer && l.stage >= linkSyncing:
			p.send(l.id, informOf(kind, r, designated))
		case l.cumulative && l.stage == linkServing && kind == KindCommit:
			l.toTell = r.Zxid
			if l.untold++; l.untold == CumulativeMax {
				p.tellCommit(l)
			}
		case !l.observer && l.stage == linkServing:
			p.send(l.id, commitOf(kind, r, designated))
		}
	}
	p.deliver(r)
	return kind == KindCommit || p.activate(designated)
}

// tellCommits sends the learners on cumulative links one COMMIT for everything committed since
// the last one. It runs wherever a learner must know of the commits before something else: at
// the end of a loop of commits, before an activation, and before the answer to a sync.
func (p *Peer) tellCommits() {
	for _, l := range p.lead.links {
		if l.untold > 0 {
			p.tellCommit(l)
		}
	}
}

func (p *Peer) tellCommit(l *link) {
	p.send(l.id, Message{Kind: KindCommit, Zxid: l.toTell})
	l.toTell, l.untold = 0, 0
}

func commitOf(kind Kind, r Record, designated quorum.ID) Message {
	m := Message{Kind: kind, Zxid: r.Zxid}
	if kind == KindCommitAndActivate {
		m.Leader = designated
	}
	return m
}

func informOf(kind Kind, r Record, designated quorum.ID) Message {
	m := Message{Kind: KindInform, Zxid: r.Zxid, Payload: r.Payload}
	if kind == KindCommitAndActivate {
		m.Kind, m.Leader = KindInformAndActivate, designated
	}
	return m
}

// syncing is a sync that has not been answered yet.
type syncing struct {
	link  LinkID  // 0 for the leader's own client
	after zk.Zxid // the last proposal when the sync arrived
	round uint64  // the first round of pings that began after the sync arrived
}

// onSync queues a sync. It is answered when everything proposed before it is committed and a
// quorum has answered a ping sent after it. The second condition is more than ZooKeeper demands
// (ZOOKEEPER-1675). A learner that answers has not left for a newer leader, so answers from a
// quorum prove that no newer leader was established when the sync arrived, and a read after the
// sync is linearizable.
func (p *Peer) onSync(e *Event) {
	if p.lead == nil || p.lead.stage != leaderServing {
		return
	}
	p.lead.syncs = append(p.lead.syncs, syncing{e.Link, p.history.last, p.lead.round + 1})
	p.lead.asked = true
}

// askForSyncs begins one round of pings for all syncs that arrived in this step.
func (p *Peer) askForSyncs() {
	if p.lead == nil || !p.lead.asked {
		return
	}
	p.lead.asked = false
	p.lead.round++
	for _, l := range p.lead.links {
		if !l.observer && l.stage == linkServing {
			p.ping(l)
		}
	}
	p.tryCommit()
}

// trySyncs answers the syncs whose conditions are met, in order of arrival, because a learner
// matches answers to syncs by their order.
func (p *Peer) trySyncs() {
	ld := p.lead
	for len(ld.syncs) > 0 {
		s := ld.syncs[0]
		answered := p.participants(true, func(l *link) bool { return l.stage == linkServing && l.round >= s.round })
		if ld.committed < s.after || ld.round < s.round || !p.decides(p.verifier(p.history.last), answered) {
			return
		}
		p.tellCommits()
		ld.syncs = ld.syncs[1:]
		switch {
		case s.link == 0:
			p.emit(Effect{Kind: EffectSynced})
		case ld.byID[s.link] != nil:
			p.send(s.link, Message{Kind: KindSync})
		}
	}
}
