package zab

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// epochJumpMax bounds how far a learner's accepted epoch may be above the leader's. Each
// attempt to lead takes one epoch, and 2^20 attempts last for weeks, so no server of the
// ensemble can be further ahead. The bound keeps a stranger from using up the epochs of the
// ensemble, which end at epochMax and are on the disks of a quorum as soon as they have begun.
// Many packets must not achieve this either, so the bound is counted from the epoch that the
// leader had accepted before the first of them.
const epochJumpMax = 1 << 20

// MayBegin reports whether servers of this ensemble may have begun an epoch, judging by the
// epoch that this server has accepted.
func (p *Peer) MayBegin(epoch uint32) bool { return epoch <= min(p.accepted+epochJumpMax, epochMax) }

// leaderHello handles a learner's hello. The new epoch is above the accepted epoch of every
// learner, including observers, although observers do not count for the quorum. All hellos of
// one leadership together raise the epoch by at most epochJumpMax.
func (p *Peer) leaderHello(l *link, m *Message) {
	if p.isForAnother(m) {
		p.drop(l)
		return
	}
	l.life = m.life()
	if p.knowsNewer(m) {
		p.drop(l) // only a server that knows that ensemble may lead it
		return
	}
	if m.epochOf() > min(p.accepted+epochJumpMax, epochMax-1) {
		p.drop(l) // not a server of this ensemble
		return
	}
	if m.Hello.Server == p.opts.ID {
		p.drop(l) // two servers have the same number: the learner's acks would count as the leader's own
		return
	}
	if p.lead.stage < leaderComparing && !p.dropOlder(l, m.Hello.Server) {
		return
	}
	l.server, l.observer, l.accepted = m.Hello.Server, m.Kind == KindObserverInfo, m.epochOf()
	l.cumulative = m.Hello.Cumulative && !l.observer && !p.opts.OneByOne
	l.stage = linkGreeted
	if p.lead.stage == leaderGathering {
		// The new epoch is above every promise seen, never equal to one (ZOOKEEPER-1343).
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

// isForAnother reports whether a learner meant to connect to another server, whose address this
// server has. The learner votes for that server, and would never report that it follows this
// one.
func (p *Peer) isForAnother(m *Message) bool { return m.Hello.Named && m.Leader != p.opts.ID }

// life identifies the process that sent a hello; 0 if the hello does not say.
func (m *Message) life() int64 {
	if !m.Hello.Named {
		return 0
	}
	return m.Epoch
}

// knowsNewer reports whether a learner's hello names a newer configuration than this server
// knows. While this server's own version is 0, a version whose counter is 0 is not newer: it is
// the number of a first epoch, and a server whose version is 0 because reconfigs are off has
// the same configuration.
func (p *Peer) knowsNewer(m *Message) bool {
	version := m.Hello.ConfigVersion
	return version > p.config.Version && (p.config.Version != 0 || zk.Zxid(version).Counter() != 0)
}

// promiseJumpMax bounds how far a promise may be above the leader's epoch for the leader to
// leave because of it. Servers may promise several epochs in a row to leaders that are never
// established.
const promiseJumpMax = 1024

// yields reports whether the leader should leave because a participant has promised a later
// epoch to a leader that was never established. That participant could never follow this
// leader, and the ensemble would stay one server short until the next election, as it does with
// ZooKeeper. Leaving starts that election now, and the next epoch of this server is above the
// promise, so any follower can join. The leader yields at most len(yieldedMs) times within
// Options.InitMs, because a stranger that sends hellos in the name of others must not be able
// to end one leadership after another.
func (p *Peer) yields() bool {
	oldest := p.yieldedMs[0]
	if p.lead.epoch >= p.promised || oldest != 0 && p.nowMs-oldest < p.opts.InitMs {
		return false
	}
	copy(p.yieldedMs[:], p.yieldedMs[1:])
	p.yieldedMs[len(p.yieldedMs)-1] = max(1, p.nowMs)
	return true
}

// dropOlder ends the older links of a server, which may have only one: an ack still on its way
// on an old link could be for a record that the learner is about to truncate. It reports
// whether the new link takes the place of the old ones. It does not if the old link is serving
// and itself replaced a link of another process a short while ago: then two servers have the
// same number, and would end each other's role for ever.
func (p *Peer) dropOlder(l *link, server quorum.ID) bool {
	if server < 0 {
		return true
	}
	for _, old := range p.serves().links {
		if old == l || old.stage != linkServing || old.server != server {
			continue
		}
		if old.life == l.life || old.life == 0 || l.life == 0 {
			continue // the same process, or one of them does not say which
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

// dropServer ends all links of a server except one.
func (p *Peer) dropServer(server quorum.ID, but *link) {
	ls := p.serves()
	for at := len(ls.links) - 1; at >= 0; at-- { // from the end: drop moves what comes after
		if l := ls.links[at]; l != but && l.stage > linkHello && l.server == server {
			p.drop(l)
		}
	}
}

// tryEpoch ends the gathering when a quorum is connected. The new epoch is above every epoch
// that the quorum has accepted, so it is above every epoch that any leader may have begun.
func (p *Peer) tryEpoch() {
	here := p.participants(true, func(l *link) bool { return l.stage >= linkGreeted })
	if p.lead.stage != leaderGathering || !p.enough(p.electors(), here) {
		return
	}
	p.lead.enter(leaderPromising, p.nowMs)
	// The epoch is on disk before the first learner learns of it. Otherwise, after a crash, it
	// could be used twice (ZOOKEEPER-1291).
	p.accept(p.lead.epoch)
}

// askEpoch sends LEADERINFO.
func (p *Peer) askEpoch(l *link) {
	invariant.Check(p.accepted >= p.lead.epoch, "zab: LEADERINFO before the promise is on disk (zab-Z2)")
	l.stage = linkAsked
	p.send(l.id, Message{Kind: KindLeaderInfo, Zxid: zk.MakeZxid(p.lead.epoch, 0), Cumulative: l.cumulative})
}

// agreed records a learner's history and that it has accepted the epoch. It reports whether the
// link stays.
func (p *Peer) agreed(l *link, m *Message) bool {
	if !p.dropOlder(l, l.server) {
		return false
	}
	l.peer, l.stage = max(m.Zxid, 0), linkAgreed
	l.needsAll = l.peer == 0 && m.Epoch != 0
	return true
}

// leaderAckEpoch compares a learner's history with the leader's own. During discovery, a
// learner that is ahead is refused, because its history may be the committed one. After
// discovery, a quorum has confirmed the leader's history, so anything more that a late learner
// has was never committed, and it is truncated.
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
	p.establish(p.lead.epoch) // on disk before the leader counts its own NEWLEADER
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

// learnerLeaderInfo promises the leader's epoch, or refuses an old one.
func (p *Peer) learnerLeaderInfo(m *Message) {
	ln := p.learn
	ln.epoch = m.epochOf()
	ln.cumulative = m.Cumulative && !p.opts.Observer && !p.opts.OneByOne
	switch {
	case ln.epoch > epochMax:
		p.leave(ReasonIllegal)
	case ln.epoch > p.accepted:
		ln.stage = learnerPromising
		p.accept(ln.epoch) // on disk before ACKEPOCH is sent
	case ln.epoch == p.accepted, p.opts.Observer && ln.epoch >= p.current:
		// The epoch was promised before, perhaps to another leader, so this promise must not be
		// counted again. An observer never counts, so its earlier promise cannot exclude a
		// leader.
		p.ackEpoch(NoEpoch)
	default:
		p.leave(ReasonOldLeader)
	}
}

// ackEpoch answers with the history of this server. A server whose log could not be truncated
// asks for the whole state, as if it had no history. It is counted nevertheless if the leader
// is known to have at least as much: otherwise an ensemble of two servers with one such server
// could never go on.
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
