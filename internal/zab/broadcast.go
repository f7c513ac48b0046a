package zab

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// NextZxid returns the zxid that the leader's next proposal must have. It is of
// use only while the leader serves.
func (p *Peer) NextZxid() zk.Zxid {
	if p.lead == nil {
		return zk.NoZxid
	}
	return p.After(p.lead.proposed)
}

// After returns the zxid of the proposal after the one of zxid. A
// standalone server goes on in a new epoch when one is used up; a leader must be
// elected again (ZOOKEEPER-1277).
func (p *Peer) After(zxid zk.Zxid) zk.Zxid {
	if p.opts.Solo && zxid.Counter() >= p.opts.CounterMax-1 {
		return zk.MakeZxid(zxid.Epoch()+1, 1)
	}
	return zxid + 1
}

// onPropose puts a transaction on its way: to all learners and to the leader's
// own log. One that was decided before the leader left is dropped; its client
// does not get an answer.
func (p *Peer) onPropose(e *Event) {
	if p.lead == nil || p.lead.stage != leaderServing {
		return
	}
	ld := p.lead
	if e.Record.Zxid.Counter() >= p.opts.CounterMax {
		p.leave(ReasonCounter) // a new epoch counts again
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

// noteAck remembers how far a learner's log goes. Acks come in the order of the
// log, so one stands for all before it; one for what was never sent is refused.
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

// tryCommit commits, in order, what a quorum has on disk (zab-Z7). An ack counts only
// of a learner that has taken over the history: the paper's leader receives
// nothing before.
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

// syncBefore reports whether a sync waits that came before the proposal of zxid. It
// is answered before that is committed: a learner of Apache's has one queue for
// writes and syncs, and an answer out of place would stop it for good. The wait
// is short: a learner that acknowledges a proposal has answered the pings before it.
func (p *Peer) syncBefore(zxid zk.Zxid) bool {
	p.trySyncs()
	return len(p.lead.syncs) > 0 && p.lead.syncs[0].after < zxid
}

// commit tells everybody, those on cumulative links with tellCommits. It returns false when the
// leader has to leave.
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

// tellCommits tells those on cumulative links of all that was committed since. It comes before
// what a learner must have after a commit: the end of a loop of commits, an activation, the
// answer to a sync.
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

// syncing is a sync that waits.
type syncing struct {
	link  LinkID  // 0 for the leader's own client
	after zk.Zxid // what had been proposed when it came
	round uint64  // of pings, begun after it came
}

// onSync queues a sync. It is answered when all that was proposed before it is
// committed and a quorum has answered a ping sent after it. The latter is more
// than ZooKeeper does (ZOOKEEPER-1675): a learner that answers has not left for
// a newer leader, so a quorum of such answers says that no newer leader was
// established when the sync came, and a read after it is linearizable.
func (p *Peer) onSync(e *Event) {
	if p.lead == nil || p.lead.stage != leaderServing {
		return
	}
	p.lead.syncs = append(p.lead.syncs, syncing{e.Link, p.history.last, p.lead.round + 1})
	p.lead.asked = true
}

// askForSyncs begins one round of pings for all syncs of a step.
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

// trySyncs answers the syncs that have waited long enough, in the order in which
// they came: a learner matches answers by order.
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
