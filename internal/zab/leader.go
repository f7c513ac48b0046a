package zab

import (
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// leaderStage is how far a leader has come.
type leaderStage uint8

const (
	leaderGathering leaderStage = iota // hellos come, until a quorum of participants is there
	leaderPromising                    // its own accepted epoch is being stored
	leaderComparing                    // ACKEPOCHs come
	leaderNoting                       // its current epoch is being stored
	leaderSyncing                      // NEWLEADER acks come
	leaderServing                      // broadcast
)

// linkStage is how far a leader has come with one learner.
type linkStage uint8

const (
	linkHello   linkStage = iota // nothing received
	linkGreeted                  // hello came, the epoch is not ready
	linkAsked                    // LEADERINFO sent
	linkAgreed                   // ACKEPOCH came, discovery is not over
	linkReading                  // the log is being read for it, a part at a time
	linkSyncing                  // everything up to NEWLEADER sent
	linkSynced                   // NEWLEADER acknowledged
	linkServing                  // UPTODATE sent

	linkStages
)

// leader is what a server knows while it leads.
type leader struct {
	stage     leaderStage
	sinceMs   int64 // of the stage
	checkMs   int64 // when to look for the quorum next
	pingMs    int64 // when to ping next
	epoch     uint32
	committed zk.Zxid // in broadcast: by a quorum. Before: the end of the history it began with
	proposed  zk.Zxid // epoch<<32 before the first proposal
	learners
	syncs   []syncing
	round   uint64 // of pings for syncs
	asked   bool   // a sync waits for a round that has not begun
	held    bool   // see Holds
	views   []view // of the learners' trees, also of those that have gone
	scratch quorum.IDs
}

// link is what a leader knows of one learner.
type link struct {
	id         LinkID
	server     quorum.ID
	observer   bool
	cumulative bool // see Hello
	counted    bool // its ACKEPOCH stands for a history, and so for the quorum of discovery
	needsAll   bool // it claims no history, but is not new: it may have one that it cannot cut
	stage      linkStage
	begun      bool // while the log is being read: a part of it was sent
	receivedMs int64
	life       int64 // of the process, see Hello
	tookMs     int64 // when it took the place of a link of the same server, or another one wanted its own; 0: never
	accepted   uint32
	peer       zk.Zxid // last record in its log
	queued     zk.Zxid // last record sent (zab-Z8)
	told       zk.Zxid // what it was told of as committed when it was synchronized
	acked      zk.Zxid // it has everything up to here
	toTell     zk.Zxid // on a cumulative link: it is told of commits up to here next; 0 of none
	untold     int     // how many those are
	waitsFor   zk.Zxid // the proposal whose ack is timed
	waitsMs    int64   // since when
	pingsSent  []uint64
	round      uint64 // last round of pings it has answered
	full       bool   // its disk has no space
}

// becomeLeader begins discovery. The leader's own log is its history: all of it
// will be committed once a quorum has it (paper, section 4.3).
func (p *Peer) becomeLeader() {
	p.state = Leading
	p.lead = &leader{
		sinceMs: p.nowMs, epoch: max(p.accepted, p.promised) + 1, committed: p.history.last,
		learners: learners{byID: map[LinkID]*link{}},
	}
	p.tryEpoch()
}

// serveAlone makes a standalone server a leader whose quorum is itself.
// It promises nobody an epoch, so it stores none, as ZooKeeper's stand-alone
// server, and goes on in that of its last record.
func (p *Peer) serveAlone() {
	p.accepted = max(p.accepted, p.history.last.Epoch())
	p.current = p.accepted
	p.state, p.phase = Leading, Broadcast
	p.lead = &leader{
		stage: leaderServing, epoch: p.current, committed: p.history.last, proposed: p.history.last,
		learners: learners{byID: map[LinkID]*link{}},
	}
}

// nextAlone begins the epoch after one that is used up. Nothing waits for the disk:
// it works in order, so the epoch is there before the records of it.
func (p *Peer) nextAlone() {
	epoch := p.accepted + 1
	p.accept(epoch)
	p.accepted = epoch
	p.establish(epoch)
	p.current = epoch
}

// welcome takes a connection in.
func (p *Peer) welcome(id LinkID) { p.serves().add(&link{id: id, receivedMs: p.nowMs}) }

func (ls *learners) add(l *link) {
	ls.links = append(ls.links, l)
	ls.byID[l.id] = l
}

func (ls *learners) remove(id LinkID) {
	if ls.byID[id] != nil {
		delete(ls.byID, id)
		ls.links = slices.DeleteFunc(ls.links, func(l *link) bool { return l.id == id })
	}
}

// drop closes a link; its learner comes back with a new one.
func (p *Peer) drop(l *link) {
	p.serves().remove(l.id)
	p.emit(Effect{Kind: EffectClose, Link: l.id})
}

// enter begins a stage and its time limit.
func (ld *leader) enter(stage leaderStage, nowMs int64) { ld.stage, ld.sinceMs = stage, nowMs }

// participants collects the learners for which has holds, and the leader itself
// if self. Observers and servers outside the configuration are in no quorum
// (zab-Z7, ZOOKEEPER-2959): quorum.Set counts participants alone, and the role said in
// the hello is checked here as well.
func (p *Peer) participants(self bool, has func(*link) bool) quorum.IDs {
	ld := p.lead
	ld.scratch = ld.scratch[:0]
	if self {
		ld.scratch.Add(p.opts.ID)
	}
	for _, l := range ld.links {
		if !l.observer && has(l) {
			ld.scratch.Add(l.server)
		}
	}
	return ld.scratch
}

// verifier is what is enough at zxid: from a reconfig on, both ensembles must
// agree (ZOOKEEPER-1699).
func (p *Peer) verifier(zxid zk.Zxid) quorum.Set {
	if p.next != nil && int64(zxid) >= p.next.Version {
		return quorum.NewJoint(p.config.Quorum, p.next.Quorum)
	}
	return p.config.Quorum
}

// electors is what is enough for discovery: with a reconfig in the log both
// ensembles, for what came after it may be committed by the new one alone, by a
// leader that knew of its commit. So a quorum of either must have promised the
// epoch, and have nothing that this leader lacks.
func (p *Peer) electors() quorum.Set { return p.verifier(p.history.last) }

// leaderStored continues what waited for the disk.
func (p *Peer) leaderStored(op operation) {
	switch {
	case p.opts.Solo || op.kind == EffectSync:
		p.tryCommit()
	case op.kind == EffectSetAccepted:
		p.lead.enter(leaderComparing, p.nowMs)
		for _, l := range p.lead.links {
			if l.stage == linkGreeted {
				p.askEpoch(l)
			}
		}
		p.tryDiscovered()
	case op.kind == EffectSetCurrent:
		p.phase = Synchronization
		p.lead.enter(leaderSyncing, p.nowMs)
		p.lead.pingMs = p.nowMs + p.opts.PingMs()
		for _, l := range slices.Clone(p.lead.links) {
			if l.stage == linkAgreed {
				p.synchronize(l)
			}
		}
		p.tryEstablished()
	}
}

// leaderTick looks at the clock: limits, the quorum, pings.
func (p *Peer) leaderTick() {
	if reason := p.overdue(); reason != ReasonNone {
		p.leave(reason)
		return
	}
	p.dropSilent()
	p.goOnHeld()
	ld := p.lead
	if ld.stage == leaderServing && p.nowMs >= ld.checkMs {
		ld.checkMs = p.nowMs + p.opts.TickMs
		if !p.hasQuorum() {
			p.leave(ReasonQuorumLost)
			return
		}
	}
	if p.alone {
		if p.tryCommit(); p.lead == nil { // what has waited for a learner that has gone
			return
		}
	}
	if ld.stage >= leaderSyncing && p.nowMs >= ld.pingMs {
		ld.pingMs = p.nowMs + p.opts.PingMs()
		for _, l := range ld.links {
			p.ping(l)
		}
	}
}

// hasQuorum reports whether the leader still leads enough servers: a quorum that has
// its history, and for a reconfig under way one that gets its proposals. A server
// of the new ensemble may take the history over yet, as when the change was
// allowed (InStep).
func (p *Peer) hasQuorum() bool {
	if p.alone {
		return true
	}
	if synced := p.participants(true, func(l *link) bool { return l.stage >= linkSynced }); !p.config.Quorum.Enough(synced) {
		return false
	}
	return p.InStep(p.verifier(p.history.last))
}

// leaderWakeMs is when the leader looks at the clock next.
func (p *Peer) leaderWakeMs() (int64, bool) {
	ld := p.lead
	switch ld.stage {
	case leaderServing:
		return min(ld.checkMs, ld.pingMs), true
	case leaderSyncing:
		return min(ld.sinceMs+p.opts.InitMs+1+p.lagMs, ld.pingMs), true
	case leaderGathering, leaderComparing:
		return ld.sinceMs + p.opts.InitMs + 1 + p.lagMs, true
	}
	return 0, false
}

// overdue tells which wait of a leader that does not serve yet took too long.
func (p *Peer) overdue() Reason {
	if p.lead.stage == leaderServing || p.lookedAtMs()-p.lead.sinceMs <= p.opts.InitMs {
		return ReasonNone
	}
	switch p.lead.stage {
	case leaderGathering:
		return ReasonNoEpochQuorum
	case leaderComparing:
		return ReasonNoAckEpoch
	case leaderSyncing:
		return ReasonNoNewLeaderAcks
	}
	return ReasonNone // its own disk works; that has no limit
}

// dropSilent closes the links of learners that are silent, or leave a proposal without
// its ack.
func (p *Peer) dropSilent() {
	ls := p.serves()
	for at := len(ls.links) - 1; at >= 0; at-- { // from the end: drop moves what comes after
		if l := ls.links[at]; p.isSilent(l) {
			p.drop(l)
		}
	}
}

func (p *Peer) isSilent(l *link) bool {
	silentMs := p.lookedAtMs() - l.receivedMs
	switch l.stage {
	case linkSynced: // it waits for UPTODATE, as long as its leader for others (overdue), and has nothing to say
		return false
	case linkServing:
		late := !l.full && l.waitsFor != 0 && p.lookedAtMs()-l.waitsMs > p.opts.SyncMs
		return late || silentMs > p.opts.SyncMs
	}
	return silentMs > p.opts.InitMs
}

// pingsMax bounds the pings of one link that are not answered.
const pingsMax = 1024

// ping asks a learner for a heartbeat. Learners that wait for NEWLEADER's
// quorum are pinged as well: they count silence already.
func (p *Peer) ping(l *link) {
	if l.stage < linkSyncing || len(l.pingsSent) >= pingsMax {
		return
	}
	if l.stage == linkServing { // before that a learner does not answer
		l.pingsSent = append(l.pingsSent, p.lead.round)
	}
	p.send(l.id, Message{Kind: KindPing, Zxid: p.lead.proposed})
}

// leaderPing takes a learner's answer, and the heartbeats in it.
func (p *Peer) leaderPing(l *link, m *Message) {
	switch {
	case m.Zxid == pingFull, m.Zxid == pingTouched:
		p.noteFull(l, m)
	case m.Zxid == pingBusy:
		l.waitsMs = p.nowMs // the acks that it owes come after its step
	case m.Zxid < 0:
		p.noteTree(l, m.Zxid)
	}
	if answers := m.Zxid >= 0 || m.Zxid < pingBusy; answers && len(l.pingsSent) > 0 {
		l.round = l.pingsSent[0]
		l.pingsSent = l.pingsSent[1:]
	}
	if len(m.Touches) > 0 {
		p.emit(Effect{Kind: EffectTouch, Link: l.id, Touches: m.Touches})
	}
	p.tryCommit()
	if m.Zxid <= pingDiverged && m.Zxid != pingBusy && p.lead != nil { // a commit may have ended the role
		p.judge()
	}
}

// leaderRequest hands a learner's request to the replica, which decides it.
func (p *Peer) leaderRequest(l *link, m *Message) {
	p.emit(Effect{Kind: EffectRequest, Link: l.id, Server: l.server, Zxid: m.Zxid, Request: m.Request})
}

func (p *Peer) leaderRevalidate(l *link, m *Message) {
	p.emit(Effect{Kind: EffectRevalidate, Link: l.id, Zxid: m.Zxid, Session: m.Session, TimeoutMs: m.TimeoutMs})
}

// onRevalidated passes the replica's answer on. It is not ordered with
// transactions.
func (p *Peer) onRevalidated(e *Event) {
	if p.served(e.Link) == nil {
		return
	}
	p.send(e.Link, Message{Kind: KindRevalidate, Zxid: zk.NoZxid, Session: e.Session, TimeoutMs: e.TimeoutMs, Valid: e.OK})
}
