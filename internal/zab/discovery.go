package zab

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// epochJumpMax is how far above what the leader has accepted a learner's accepted epoch
// may be. Each attempt to lead takes one epoch, so that no learner can be as far ahead:
// 2^20 attempts last for weeks. Strangers must not use up the epochs of all, which end at
// epochMax and are on the disks of a quorum as soon as one has begun: neither by one packet
// nor by many, so what counts is what was accepted before the first of them.
const epochJumpMax = 1 << 20

// MayBegin reports whether servers of this ensemble may have begun an epoch, by what this
// one has accepted.
func (p *Peer) MayBegin(epoch uint32) bool { return epoch <= min(p.accepted+epochJumpMax, epochMax) }

// leaderHello takes a learner's hello. Its accepted epoch raises the new one, also that of
// an observer, which does not count for the quorum. Hellos together raise it by
// epochJumpMax at most in one leadership.
func (p *Peer) leaderHello(l *link, m *Message) {
	if p.isForAnother(m) {
		p.drop(l)
		return
	}
	l.life = m.life()
	if p.knowsNewer(m) {
		p.drop(l) // a leader must know that ensemble as well
		return
	}
	if m.epochOf() > min(p.accepted+epochJumpMax, epochMax-1) {
		p.drop(l) // no server of this ensemble
		return
	}
	if m.Hello.Server == p.opts.ID {
		p.drop(l) // two servers with one number: its acks would count as the leader's own
		return
	}
	if p.lead.stage < leaderComparing && !p.dropOlder(l, m.Hello.Server) {
		return
	}
	l.server, l.observer, l.accepted = m.Hello.Server, m.Kind == KindObserverInfo, m.epochOf()
	l.cumulative = m.Hello.Cumulative && !l.observer && !p.opts.OneByOne
	l.stage = linkGreeted
	if p.lead.stage == leaderGathering {
		// Above every promise seen, its equal included (ZOOKEEPER-1343).
		p.lead.epoch = max(p.lead.epoch, l.accepted+1)
		p.tryEpoch()
		return
	}
	if !l.observer && p.electors().Participants().Has(l.server) && l.accepted <= p.lead.epoch+promiseJumpMax {
		p.promised = max(p.promised, l.accepted)
	}
	if p.yields() {
		p.leave(ReasonNewerPromise)
		return
	}
	if p.lead.stage >= leaderComparing {
		p.askEpoch(l)
	}
}

// isForAnother reports whether a learner means another server, whose address this one has: its votes
// are for that one, and it would tell nobody that it follows this one.
func (p *Peer) isForAnother(m *Message) bool { return m.Hello.Named && m.Leader != p.opts.ID }

// life is the process that says hello, 0 if that is not told.
func (m *Message) life() int64 {
	if !m.Hello.Named {
		return 0
	}
	return m.Epoch
}

// knowsNewer reports whether a learner that says hello knows a newer ensemble than this server. The number
// of a first epoch makes none: a server that has no number, for reconfigs are off, has the same one.
func (p *Peer) knowsNewer(m *Message) bool {
	version := m.Hello.ConfigVersion
	return version > p.config.Version && (p.config.Version != 0 || zk.Zxid(version).Counter() != 0)
}

// promiseJumpMax bounds how far a promise may be above the epoch of a leader that leaves for
// it: servers promise one epoch after the other to leaders that do not come to lead.
const promiseJumpMax = 1024

// yields reports whether the leader leaves because a participant has promised a later epoch,
// to a leader that did not come to lead. It could never follow this one: ZooKeeper's
// ensemble would stay one server short until the next election. So let that be now; the next
// epoch of this server is above the promise, for any follower. It yields so often within the
// time of an election, and no more: a stranger that sends hellos in the name of others must
// not end one leadership after the other.
func (p *Peer) yields() bool {
	oldest := p.yieldedMs[0]
	if p.lead.epoch >= p.promised || oldest != 0 && p.nowMs-oldest < p.opts.InitMs {
		return false
	}
	copy(p.yieldedMs[:], p.yieldedMs[1:])
	p.yieldedMs[len(p.yieldedMs)-1] = max(1, p.nowMs)
	return true
}

// dropOlder ends the links that a server had before this one. One link a server: an ack of
// an old one, on its way still, could be for a record that the learner is about to truncate.
// It reports whether this one takes their place: not from one that has done so a short while ago,
// and serves. Then two servers have one number, and would end each other's role for ever.
func (p *Peer) dropOlder(l *link, server quorum.ID) bool {
	if server < 0 {
		return true
	}
	for _, old := range p.serves().links {
		if old == l || old.stage != linkServing || old.server != server {
			continue
		}
		if old.life == l.life || old.life == 0 || l.life == 0 {
			continue // one process, or nobody knows
		}
		if old.tookMs != 0 && p.nowMs-old.tookMs < p.opts.SyncMs {
			old.tookMs = p.nowMs
			p.serves().remove(l.id)
			p.emit(Effect{Kind: EffectClose, Link: l.id, Server: server, OK: true})
			return false
		}
		l.tookMs = max(p.nowMs, 1)
	}
	p.dropServer(server, l)
	return true
}

// dropServer ends all links of a server but one.
func (p *Peer) dropServer(server quorum.ID, but *link) {
	ls := p.serves()
	for at := len(ls.links) - 1; at >= 0; at-- { // from the end: drop moves what comes after
		if l := ls.links[at]; l != but && l.stage > linkHello && l.server == server {
			p.drop(l)
		}
	}
}

// tryEpoch ends the gathering when a quorum is connected: the new epoch is above
// all that they have accepted, so above all that any leader may have begun.
func (p *Peer) tryEpoch() {
	here := p.participants(true, func(l *link) bool { return l.stage >= linkGreeted })
	if p.lead.stage != leaderGathering || !p.enough(p.electors(), here) {
		return
	}
	p.lead.enter(leaderPromising, p.nowMs)
	// On disk before the first learner learns of it: else a crash lets the epoch
	// be used twice (ZOOKEEPER-1291).
	p.accept(p.lead.epoch)
}

// askEpoch sends LEADERINFO.
func (p *Peer) askEpoch(l *link) {
	invariant.Check(p.accepted >= p.lead.epoch, "zab: LEADERINFO before the promise is on disk (zab-Z2)")
	l.stage = linkAsked
	p.send(l.id, Message{Kind: KindLeaderInfo, Zxid: zk.MakeZxid(p.lead.epoch, 0), Cumulative: l.cumulative})
}

// agreed notes a learner's history, and that it has taken the epoch. It reports whether the link stays.
func (p *Peer) agreed(l *link, m *Message) bool {
	if !p.dropOlder(l, l.server) {
		return false
	}
	l.peer, l.stage = max(m.Zxid, 0), linkAgreed
	l.needsAll = l.peer == 0 && m.Epoch != 0
	return true
}

// leaderAckEpoch compares a learner's history with the leader's own. A learner
// that is ahead is refused while discovery goes on: its history may be the
// committed one. Afterwards a quorum has confirmed the leader's, so what a late
// learner has more was never committed, and it is truncated.
func (p *Peer) leaderAckEpoch(l *link, m *Message) {
	if !p.agreed(l, m) {
		return
	}
	switch p.lead.stage {
	case leaderComparing:
		l.counted = m.Epoch != NoEpoch && m.Zxid >= 0
		if l.counted && p.isAhead(m.Epoch, m.Zxid) {
			p.drop(l)
			return
		}
		p.tryDiscovered()
	case leaderSyncing, leaderServing:
		p.synchronize(l)
	}
}

func (p *Peer) isAhead(current int64, last zk.Zxid) bool {
	own := int64(p.current)
	return current > own || current == own && last > p.history.last
}

// tryDiscovered ends discovery when a quorum has accepted the epoch.
func (p *Peer) tryDiscovered() {
	agreed := p.participants(true, func(l *link) bool { return l.counted && l.stage >= linkAgreed })
	if p.lead.stage != leaderComparing || !p.enough(p.electors(), agreed) {
		return
	}
	p.lead.enter(leaderNoting, p.nowMs)
	p.establish(p.lead.epoch) // before it counts its own NEWLEADER
}

// hello begins discovery on the learner's side.
func (p *Peer) hello(link LinkID) {
	ln := p.learn
	ln.link, ln.stage, ln.receivedMs = link, learnerGreeting, p.nowMs
	kind := KindFollowerInfo
	if p.opts.Observer {
		kind = KindObserverInfo
	}
	p.send(link, Message{
		Kind: kind, Zxid: zk.MakeZxid(p.accepted, 0), Leader: ln.from, Epoch: p.opts.Life,
		Hello: Hello{Server: p.opts.ID, ConfigVersion: p.config.Version, Cumulative: !p.opts.Observer && !p.opts.OneByOne, Named: true},
	})
}

// learnerLeaderInfo promises an epoch, or refuses an old one.
func (p *Peer) learnerLeaderInfo(m *Message) {
	ln := p.learn
	ln.epoch = m.epochOf()
	ln.cumulative = m.Cumulative && !p.opts.Observer && !p.opts.OneByOne
	switch {
	case ln.epoch > epochMax:
		p.leave(ReasonIllegal)
	case ln.epoch > p.accepted:
		ln.stage = learnerPromising
		p.accept(ln.epoch) // on disk before ACKEPOCH
	case ln.epoch == p.accepted, p.opts.Observer && ln.epoch >= p.current:
		// Promised before, perhaps to another: not to be counted again. What an
		// observer has promised keeps nobody out, since it never counts.
		p.ackEpoch(NoEpoch)
	default:
		p.leave(ReasonOldLeader)
	}
}

// ackEpoch answers with the history. One whose log could not be cut asks for
// everything, as if it had none. It is counted nevertheless if the leader is known
// to have no less: else two servers of which one is such could never go on.
func (p *Peer) ackEpoch(current int64) {
	invariant.Check(p.accepted >= p.learn.epoch, "zab: ACKEPOCH before the promise is on disk (zab-Z2)")
	last := p.history.last
	if p.needSnapshot {
		if p.learn.voted.less(claim{current, last}) {
			current = NoEpoch
		}
		last = 0
	}
	p.learn.stage = learnerAgreed
	p.send(p.learn.link, Message{Kind: KindAckEpoch, Zxid: last, Epoch: current})
}
