package zab

import (
	"cmp"
	"slices"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// An observer master is a follower that serves observers in place of its leader
// (Options.Masters), so that the leader sends each transaction to the participants alone. To an
// observer it looks like a leader that serves already: it announces the epoch that it follows,
// sends the history as a leader does (synchronization.go), and then an INFORM for each
// transaction that it delivers. It forwards what observers ask to the leader, which takes it
// for the follower's own. The results of requests reach everybody in the order of transactions.
// Answers to syncs and to revalidations arrive in the order of the questions, so the master
// remembers who asked.
//
// A master knows the order of transactions only as far as it has delivered them. That may be
// less than what an observer already has from another master or from the leader. Such an
// observer waits until the master has delivered as much: a history that clients may have seen
// is never truncated.

// learners are the links of the learners to which this server sends its history.
type learners struct {
	links []*link // in the order in which they connected
	byID  map[LinkID]*link
}

// serves returns the learners of a leader or of an observer master; nil if this server is
// neither.
func (p *Peer) serves() *learners {
	switch {
	case p.lead != nil:
		return &p.lead.learners
	case p.master != nil:
		return &p.master.learners
	}
	return nil
}

// served returns the link with a number; nil if there is none.
func (p *Peer) served(id LinkID) *link {
	if ls := p.serves(); ls != nil {
		return ls.byID[id]
	}
	return nil
}

// servedEpoch is the epoch in which a leader, or an observer master, serves.
func (p *Peer) servedEpoch() uint32 {
	if p.lead != nil {
		return p.lead.epoch
	}
	return p.learn.epoch
}

// master is what a follower knows while it serves observers.
type master struct {
	learners
	pingMs int64    // when to ping next
	syncs  []LinkID // who waits for each answer to a sync, in order of arrival: 0 is this server's own client
	asked  []LinkID // the same for revalidations
}

// becomeMaster begins to accept observers, once the follower serves.
func (p *Peer) becomeMaster() {
	if p.opts.Masters && !p.opts.Observer {
		p.master = &master{learners: learners{byID: map[LinkID]*link{}}, pingMs: p.nowMs + p.opts.PingMs()}
	}
}

// leaveMaster ends the links of the observers.
func (p *Peer) leaveMaster() {
	if p.master == nil {
		return
	}
	for _, l := range p.master.links {
		p.emit(Effect{Kind: EffectClose, Link: l.id})
	}
	p.master = nil
}

// masterTick disconnects silent observers and pings the others.
func (p *Peer) masterTick() {
	if p.master == nil {
		return
	}
	p.dropSilent()
	if p.nowMs < p.master.pingMs {
		return
	}
	p.master.pingMs = p.nowMs + p.opts.PingMs()
	for _, l := range p.master.links {
		if l.stage >= linkSyncing {
			p.send(l.id, Message{Kind: KindPing, Zxid: p.delivered})
		}
	}
}

// masterHello handles an observer's hello. There is no epoch to agree on: it is the one that
// this server follows.
func (p *Peer) masterHello(l *link, m *Message) {
	if p.isForAnother(m) || p.knowsNewer(m) || m.Hello.Server == p.opts.ID {
		p.drop(l) // it wants another server, knows a newer ensemble, or has this server's number
		return
	}
	l.server, l.observer, l.accepted, l.life = m.Hello.Server, true, m.epochOf(), m.life()
	l.stage = linkAsked
	p.send(l.id, Message{Kind: KindLeaderInfo, Zxid: zk.MakeZxid(p.learn.epoch, 0)})
}

func (p *Peer) masterAckEpoch(l *link, m *Message) {
	if p.agreed(l, m) {
		p.masterSynchronize(l)
	}
}

// masterSynchronize synchronizes an observer, unless the observer has transactions of this
// epoch that this server has not delivered yet. Those are committed, because an observer logs
// nothing else. Transactions of older epochs that this server lacks were never committed, and
// are truncated.
func (p *Peer) masterSynchronize(l *link) {
	if l.peer.Epoch() < p.learn.epoch || l.peer <= p.delivered {
		p.synchronize(l)
	}
}

// masterAckNewLeader lets an observer serve its clients. The only later ack is that of
// UPTODATE.
func (p *Peer) masterAckNewLeader(l *link, m *Message) {
	if m.Zxid != zk.MakeZxid(p.learn.epoch, 0) {
		return
	}
	l.stage, l.receivedMs = linkServing, p.nowMs
	p.send(l.id, Message{Kind: KindUpToDate, Zxid: zk.NoZxid})
}

// masterPing takes the heartbeats from an observer's answer. What the answer says about the
// observer's tree is for a leader to judge; the observer connects to the leader by itself
// (onDiverged).
func (p *Peer) masterPing(l *link, m *Message) {
	if len(m.Touches) > 0 {
		p.emit(Effect{Kind: EffectTouch, Link: l.id, Touches: m.Touches})
	}
}

// inform sends observers a transaction that this server has just delivered because of the
// leader's COMMIT (zab-Z11).
func (p *Peer) inform(r Record, commit *Message) {
	for _, l := range p.master.links {
		switch {
		case l.stage >= linkSyncing:
			invariant.Check(r.Zxid == p.delivered && follows(l.queued, r.Zxid), "zab: an observer is informed of what is not next (zab-Z11)")
			l.queued = r.Zxid
			p.send(l.id, informOf(commit.Kind, r, commit.Leader))
		case l.stage == linkAgreed:
			p.masterSynchronize(l)
		}
	}
}

// noteSync remembers who waits for the answer to a sync that is sent to the leader.
func (p *Peer) noteSync(from LinkID) {
	if p.master != nil {
		p.master.syncs = append(p.master.syncs, from)
	}
}

// noteAsked does the same for a revalidation.
func (p *Peer) noteAsked(from LinkID) {
	if p.master != nil {
		p.master.asked = append(p.master.asked, from)
	}
}

// takeOldest removes and returns the link that waits for the leader's next answer of a kind: 0
// is this server.
func takeOldest(of *[]LinkID) LinkID {
	if len(*of) == 0 {
		return 0
	}
	oldest := (*of)[0]
	*of = (*of)[1:]
	return oldest
}

// oldestSync returns the link that waits for the leader's next answer to a sync.
func (p *Peer) oldestSync() LinkID {
	if p.master == nil {
		return 0
	}
	return takeOldest(&p.master.syncs)
}

// oldestAsked returns the link that waits for the leader's next answer to a revalidation.
func (p *Peer) oldestAsked() LinkID {
	if p.master == nil {
		return 0
	}
	return takeOldest(&p.master.asked)
}

// nextMaster chooses the server that an observer connects to. It tries one participant after
// another, in an order that differs between observers, so that they share the masters. A
// follower that does not serve yet refuses, and is tried again. If none has accepted the
// observer within Options.InitMs, the leader is next, which serves observers at its own port.
func (p *Peer) nextMaster(leader quorum.ID) quorum.ID {
	if p.soughtMs == 0 {
		p.soughtMs = max(1, p.nowMs)
	}
	var masters []quorum.ID
	for _, id := range p.config.Quorum.Participants() {
		if id != leader && id != p.opts.ID {
			masters = append(masters, id)
		}
	}
	if p.toLeader || len(masters) == 0 || p.nowMs-p.soughtMs > p.opts.InitMs {
		p.toLeader, p.soughtMs = false, 0
		return leader
	}
	slices.SortFunc(masters, func(a, b quorum.ID) int { return cmp.Compare(p.rank(a), p.rank(b)) })
	p.masterTries++
	return masters[(p.masterTries-1)%len(masters)]
}

// rank returns a pseudo-random number for a master, which differs between observers.
func (p *Peer) rank(id quorum.ID) uint64 {
	z := (uint64(p.opts.ID)*0x9e3779b97f4a7c15 ^ uint64(id)) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>30) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Master returns the server that a learner is connected to, or tries to connect to: its leader,
// or an observer master in the leader's place.
func (p *Peer) Master() (id quorum.ID, ok bool) {
	if p.learn == nil {
		return 0, false
	}
	return p.learn.from, true
}

// Follows reports whether this server learns on a link: from its leader, or from an observer
// master in the leader's place.
func (p *Peer) Follows(link LinkID) bool { return p.learn != nil && link != 0 && p.learn.link == link }

// BehindMaster reports whether this server observes through an observer master.
func (p *Peer) BehindMaster() bool { return p.learn != nil && p.learn.from != p.learn.leader }

// goesBack reports whether an observer's history would end before what it already has of the
// epoch, because this master is behind another one. The observer tries this master again later.
func (p *Peer) goesBack(zxid zk.Zxid) bool {
	return p.BehindMaster() && zxid < p.history.last && p.history.last.Epoch() == p.learn.epoch
}
