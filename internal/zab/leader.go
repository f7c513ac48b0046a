package zab

import (
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// leaderStage is how far a leader has come in the protocol.
type leaderStage uint8

const (
	leaderGathering leaderStage = iota // hellos arrive, until a quorum of participants is connected
	leaderPromising                    // its own accepted epoch is being stored
	leaderComparing                    // ACKEPOCHs arrive
	leaderNoting                       // its current epoch is being stored
	leaderSyncing                      // NEWLEADER acks arrive
	leaderServing                      // broadcast
)

// linkStage is how far a leader has come with one learner.
type linkStage uint8

const (
	linkHello   linkStage = iota // nothing received yet
	linkGreeted                  // hello received, the new epoch is not known yet
	linkAsked                    // LEADERINFO sent
	linkAgreed                   // ACKEPOCH received, discovery is not over or the learner has to wait
	linkReading                  // the log is being read for it, one part at a time
	linkSyncing                  // everything up to NEWLEADER sent
	linkSynced                   // NEWLEADER acknowledged
	linkServing                  // UPTODATE sent

	linkStages
)

// leader is what a server knows while it leads.
type leader struct {
	stage     leaderStage
	sinceMs   int64 // when the stage began
	checkMs   int64 // when to look for the quorum next
	pingMs    int64 // when to ping next
	epoch     uint32
	committed zk.Zxid // in broadcast: committed by a quorum. Before: the end of the history it began with
	proposed  zk.Zxid // the last proposal; epoch<<32 before the first
	learners
	syncs   []syncing
	round   uint64 // of pings for syncs
	asked   bool   // a sync waits for a round that has not begun yet
	held    bool   // see Holds
	views   []view // of the learners' trees, including learners that have left
	scratch quorum.IDs
}

// link is what a leader knows about one learner.
type link struct {
	id         LinkID
	server     quorum.ID
	observer   bool
	cumulative bool // see Hello
	counted    bool // its ACKEPOCH stands for a history, and so counts for the quorum of discovery
	needsAll   bool // it reports no history but is not new: it may have a log that it cannot truncate
	stage      linkStage
	begun      bool // while the log is being read: a part has been sent already
	receivedMs int64
	life       int64 // of the process, see Hello
	tookMs     int64 // when it replaced a link of the same server, or another link last tried to replace it; 0: never
	accepted   uint32
	peer       zk.Zxid // last record in its log
	queued     zk.Zxid // last record sent (zab-Z8)
	told       zk.Zxid // the last commit known to it from its synchronization
	acked      zk.Zxid // its log has everything up to here
	toTell     zk.Zxid // on a cumulative link: the next COMMIT covers everything up to here; 0: no commit waits
	untold     int     // how many commits wait to be sent
	waitsFor   zk.Zxid // the proposal whose ack is timed
	waitsMs    int64   // since when it is timed
	pingsSent  []uint64
	round      uint64 // last round of pings it has answered
	full       bool   // its disk has no space
}

// becomeLeader begins discovery. The leader's own log is its history: all of it will be
// committed once a quorum has it (paper, section 4.3).
func (p *Peer) becomeLeader() {
	p.state = Leading
	p.lead = &leader{
		sinceMs: p.nowMs, epoch: max(p.accepted, p.promised) + 1, committed: p.history.last,
		learners: learners{byID: map[LinkID]*link{}},
	}
	p.tryEpoch()
}

// serveAlone makes a standalone server a leader whose quorum is itself. It promises an epoch to
// nobody, so like ZooKeeper's standalone server it stores none, and it goes on in the epoch of
// its last record.
func (p *Peer) serveAlone() {
	p.accepted = max(p.accepted, p.history.last.Epoch())
	p.current = p.accepted
	p.state, p.phase = Leading, Broadcast
	p.lead = &leader{
		stage: leaderServing, epoch: p.current, committed: p.history.last, proposed: p.history.last,
		learners: learners{byID: map[LinkID]*link{}},
	}
}

// nextAlone begins the next epoch when one is used up. It does not wait for the disk: the disk
// works in order, so the epoch is stored before the records of that epoch.
func (p *Peer) nextAlone() {
	epoch := p.accepted + 1
	p.accept(epoch)
	p.accepted = epoch
	p.establish(epoch)
	p.current = epoch
}

// welcome adds a new connection.
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

// drop closes a link; the learner reconnects with a new one.
func (p *Peer) drop(l *link) {
	p.serves().remove(l.id)
	p.emit(Effect{Kind: EffectClose, Link: l.id})
}

// enter begins a stage and starts its time limit.
func (ld *leader) enter(stage leaderStage, nowMs int64) { ld.stage, ld.sinceMs = stage, nowMs }

// participants collects the learners for which has returns true, and the leader itself if self
// is set. Observers and servers outside the configuration belong to no quorum (zab-Z7,
// ZOOKEEPER-2959): quorum.Set counts participants alone, and the role that a learner stated in
// its hello is checked here as well.
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

// verifier returns the quorums needed to commit at zxid. From a reconfig on, both ensembles
// must agree (ZOOKEEPER-1699).
func (p *Peer) verifier(zxid zk.Zxid) quorum.Set {
	if p.next != nil && int64(zxid) >= p.next.Version {
		return quorum.NewJoint(p.config.Quorum, p.next.Quorum)
	}
	return p.config.Quorum
}

// electors returns the quorums needed for discovery: those of both ensembles if the log has a
// reconfig that is not known to be committed. What came after the reconfig may have been
// committed by the new ensemble alone, under a leader that knew that the reconfig was
// committed. So a quorum of each ensemble must have promised the epoch and must have nothing
// that this leader lacks.
func (p *Peer) electors() quorum.Set { return p.verifier(p.history.last) }

// leaderStored continues with what was waiting for the disk.
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

// leaderTick does what depends on the clock: time limits, the check for a quorum, pings.
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
		if p.tryCommit(); p.lead == nil { // commits what was waiting for a learner that has left
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

// hasQuorum reports whether the leader still leads enough servers: a quorum that has its
// history and, during a reconfig, a quorum that receives its proposals. A server of the new
// ensemble may still be taking over the history, as it might have been when the reconfig was
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

// leaderWakeMs returns when the leader next has to look at the clock.
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

// overdue returns the reason if a leader that does not serve yet has waited too long.
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
	return ReasonNone // it waits for its own disk, which has no limit
}

// dropSilent closes the links of learners that are silent or have not acknowledged a proposal
// in time.
func (p *Peer) dropSilent() {
	ls := p.serves()
	for at := len(ls.links) - 1; at >= 0; at-- { // from the end, because drop moves the links after it
		if l := ls.links[at]; p.isSilent(l) {
			p.drop(l)
		}
	}
}

func (p *Peer) isSilent(l *link) bool {
	silentMs := p.lookedAtMs() - l.receivedMs
	switch l.stage {
	case linkSynced: // it waits for UPTODATE as long as its leader waits for others (overdue), and has nothing to send
		return false
	case linkServing:
		late := !l.full && l.waitsFor != 0 && p.lookedAtMs()-l.waitsMs > p.opts.SyncMs
		return late || silentMs > p.opts.SyncMs
	}
	return silentMs > p.opts.InitMs
}

// pingsMax bounds the unanswered pings of one link.
const pingsMax = 1024

// ping asks a learner for a heartbeat. Learners that wait until a quorum has acknowledged
// NEWLEADER are pinged as well, because they already time the leader's silence.
func (p *Peer) ping(l *link) {
	if l.stage < linkSyncing || len(l.pingsSent) >= pingsMax {
		return
	}
	if l.stage == linkServing { // learners at earlier stages do not answer
		l.pingsSent = append(l.pingsSent, p.lead.round)
	}
	p.send(l.id, Message{Kind: KindPing, Zxid: p.lead.proposed})
}

// leaderPing handles a learner's ping, with the heartbeats in it.
func (p *Peer) leaderPing(l *link, m *Message) {
	switch {
	case m.Zxid == pingFull, m.Zxid == pingTouched:
		p.noteFull(l, m)
	case m.Zxid == pingBusy:
		l.waitsMs = p.nowMs // it will send the acks that it owes after its long step
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
	if m.Zxid <= pingDiverged && m.Zxid != pingBusy && p.lead != nil { // the commit above may have ended the role
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

// onRevalidated sends the replica's answer to the learner. It is not ordered with transactions.
func (p *Peer) onRevalidated(e *Event) {
	if p.served(e.Link) == nil {
		return
	}
	p.send(e.Link, Message{Kind: KindRevalidate, Zxid: zk.NoZxid, Session: e.Session, TimeoutMs: e.TimeoutMs, Valid: e.OK})
}
