package zab

import (
	"cmp"
	"slices"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// learnerStage is how far a learner has come in the protocol.
type learnerStage uint8

const (
	learnerConnecting learnerStage = iota // EffectConnect was emitted
	learnerGreeting                       // hello sent
	learnerPromising                      // the accepted epoch is being stored
	learnerAgreed                         // ACKEPOCH sent
	learnerSyncing                        // the history arrives
	learnerStoring                        // NEWLEADER received; history and epoch are being stored
	learnerReady                          // NEWLEADER acknowledged
	learnerServing                        // UPTODATE received

	learnerStages
)

// claim is what a server says about its history. Claims are ordered by epoch, then by zxid. The
// true claim of a server never falls.
type claim struct {
	epoch int64
	zxid  zk.Zxid
}

func (c claim) less(o claim) bool { return c.epoch < o.epoch || c.epoch == o.epoch && c.zxid < o.zxid }

// learner is what a server knows while it follows or observes.
type learner struct {
	leader     quorum.ID
	from       quorum.ID // the server it gets its history from: the leader, or an observer master
	voted      claim     // what the leader claimed when it was elected
	link       LinkID
	stage      learnerStage
	receivedMs int64
	epoch      uint32 // the leader's
	cumulative bool   // the link to the leader is cumulative, see Hello
	pending    pending
	acked      zk.Zxid // the last proposal acknowledged in broadcast

	snapshot     bool    // synchronized by SNAP
	base         zk.Zxid // the zxid of that snapshot
	treeReplaced bool    // by a snapshot that is not on disk yet: the tree must not be kept if the role ends
	cutting      bool    // the log is being truncated
	hasNewLeader bool    // NEWLEADER arrived while the log was being truncated

	diverged bool // the tree differs from the one that the transactions produce
}

// becomeLearner connects to the leader or to an observer master. The leader's silence counts
// from now.
func (p *Peer) becomeLearner(e *Event) {
	p.state = Following
	if p.opts.Observer {
		p.state = Observing
	}
	from := e.Server
	if p.opts.Observer && p.opts.Masters {
		from = p.nextMaster(e.Server)
	}
	p.learn = &learner{leader: e.Server, from: from, voted: claim{e.Epoch, e.Record.Zxid}, receivedMs: p.nowMs}
	p.emit(Effect{Kind: EffectConnect, Server: from, Master: p.BehindMaster()})
}

// learnerTick leaves a leader that has been silent for too long.
func (p *Peer) learnerTick() {
	if !p.learn.storing() && p.lookedAtMs()-p.learn.receivedMs > p.silenceMs() {
		p.leave(ReasonSilence)
		return
	}
	p.masterTick()
}

// storing reports whether the learner waits for its own disk. That time does not count as the
// leader's silence.
func (ln *learner) storing() bool { return ln.stage == learnerPromising || ln.stage == learnerStoring }

// silenceMs returns how long the leader may be silent. The limit changes on both sides exactly
// with the ack of NEWLEADER, because a large snapshot takes its time.
func (p *Peer) silenceMs() int64 {
	if p.learn.stage >= learnerReady {
		return p.opts.SyncMs
	}
	return p.opts.InitMs
}

// learnerDiff handles DIFF: the learner's log is the beginning of the leader's history. The
// zxid in the message is where the leader is, not where the learner will be (ZOOKEEPER-2355).
func (p *Peer) learnerDiff(*Message) { p.beginSync() }

// learnerTrunc truncates the log. Nothing is logged until that is done.
func (p *Peer) learnerTrunc(m *Message) {
	if m.Zxid < 0 || m.Zxid > p.history.last {
		p.leave(ReasonIllegal)
		return
	}
	if p.goesBack(m.Zxid) {
		p.leave(ReasonMasterBehind)
		return
	}
	p.beginSync()
	p.learn.cutting = true
	p.store(Effect{Kind: EffectTruncate, Zxid: m.Zxid})
	p.history.truncate(m.Zxid)
	p.forgetConfig(m.Zxid)
	p.delivered = m.Zxid // the tree is reloaded from what is left
}

// learnerSnap replaces the whole tree with the leader's. The log stays as it is until the new
// state is a durable snapshot at NEWLEADER, so that a crash on the way does not lose what this
// server has acknowledged.
func (p *Peer) learnerSnap(m *Message) {
	if m.Zxid < 0 || m.epochOf() > p.learn.epoch {
		p.leave(ReasonIllegal)
		return
	}
	if p.goesBack(m.Zxid) {
		p.leave(ReasonMasterBehind)
		return
	}
	p.beginSync()
	p.learn.snapshot, p.learn.base, p.learn.treeReplaced = true, m.Zxid, true
	p.emit(Effect{Kind: EffectLoadSnapshot, Link: p.learn.link, Zxid: m.Zxid})
	p.history.reset(m.Zxid)
	p.next = nil // it belongs to a history that is abandoned; a newer one is in the snapshot, or follows
	p.delivered = m.Zxid
}

func (p *Peer) beginSync() {
	p.phase = Synchronization
	p.learn.stage = learnerSyncing
}

// learnerProposal keeps a proposal that arrives before UPTODATE. Every proposal, including the
// first one, must continue the history. Java checks neither (ZOOKEEPER-4925).
func (p *Peer) learnerProposal(m *Message) {
	ln := p.learn
	if p.inSnapshot(m) {
		return
	}
	if !follows(ln.pending.last(p.history.last), m.Zxid) || m.epochOf() > ln.epoch {
		p.leave(ReasonGap)
		return
	}
	ln.pending.records = append(ln.pending.records, Record{m.Zxid, m.Payload})
}

// learnerCommit marks proposals that are committed before UPTODATE arrives. A commit may arrive
// at any point of the synchronization (ZOOKEEPER-4394).
func (p *Peer) learnerCommit(m *Message) {
	if p.inSnapshot(m) {
		return
	}
	q := &p.learn.pending
	n := p.committedBy(m, q.records[q.committed:])
	if n == 0 {
		p.leave(ReasonDivergence)
		return
	}
	q.committed += n
}

// committedBy returns how many of the waiting records a commit covers. That is the oldest one,
// which the commit must name, or on a cumulative link all records up to the one it names. 0
// means that the commit belongs to another history.
func (p *Peer) committedBy(m *Message, waiting []Record) int {
	if len(waiting) == 0 {
		return 0
	}
	if waiting[0].Zxid == m.Zxid {
		return 1
	}
	if !p.learn.cumulative || m.Kind != KindCommit {
		return 0
	}
	at, found := slices.BinarySearchFunc(waiting, m.Zxid, func(r Record, z zk.Zxid) int { return cmp.Compare(r.Zxid, z) })
	if !found {
		return 0
	}
	return at + 1
}

// inSnapshot reports whether a proposal or commit is for a transaction that the snapshot
// already has. A Java leader takes the zxid of SNAP after it has begun to forward proposals.
func (p *Peer) inSnapshot(m *Message) bool { return p.learn.snapshot && m.Zxid <= p.learn.base }

// learnerNewLeader handles NEWLEADER, the end of the history.
func (p *Peer) learnerNewLeader(m *Message) {
	if m.epochOf() != p.learn.epoch {
		p.leave(ReasonIllegal)
		return
	}
	if p.learn.cutting {
		p.learn.hasNewLeader = true
		return
	}
	p.takeHistory()
}

// takeHistory makes the leader's history this server's own: first the history is stored, then
// the epoch, and when both are durable NEWLEADER is acknowledged (zab-Z3). Every other order
// has lost data (ZOOKEEPER-3911, 4643, 4646, 4785). Proposals that are not committed wait for
// UPTODATE and are acknowledged one by one.
func (p *Peer) takeHistory() {
	ln := p.learn
	ln.stage = learnerStoring
	for _, r := range p.history.after(p.delivered) {
		p.deliver(r) // logged in an earlier role; the leader's history has them too
	}
	for _, r := range ln.pending.takeCommitted() {
		if ln.snapshot {
			p.history.append(r) // the snapshot will contain it
		} else {
			p.append(r)
		}
		p.deliver(r)
	}
	if ln.snapshot {
		p.store(Effect{Kind: EffectSaveSnapshot, Zxid: p.delivered})
	}
	p.establish(ln.epoch)
}

// learnerStored continues with what was waiting for the disk.
func (p *Peer) learnerStored(op operation) {
	ln := p.learn
	switch op.kind {
	case EffectSetAccepted:
		p.countSilence()
		p.ackEpoch(int64(p.current))
	case EffectTruncate:
		ln.cutting = false
		if ln.hasNewLeader {
			p.takeHistory()
		}
	case EffectSaveSnapshot:
		ln.treeReplaced, p.needSnapshot = false, false
	case EffectSetCurrent:
		p.countSilence()
		ln.stage = learnerReady
		p.ackNewLeader()
	case EffectSync:
		p.ackDurable()
	}
}

// onMoves handles the report that a history makes progress, however long it takes. A learner
// that is receiving a history is not silent, and neither is the leader that a snapshot comes
// from. ZooKeeper's limits apply to each read of the socket, and to the ack after the history.
// A learner that has the whole history can speak for itself, and so can its leader: from then
// on, all that moves is what this learner sends, which the leader's kernel takes even while the
// leader is frozen.
func (p *Peer) onMoves(e *Event) {
	switch {
	case p.learn != nil && p.learn.link == e.Link:
		if p.learn.stage < learnerReady {
			p.countSilence()
		}
	default:
		if l := p.served(e.Link); l != nil && l.stage < linkSynced {
			p.moves(l)
		}
	}
}

// moves records that a learner is being sent what it lacks; it has nothing to send meanwhile.
func (p *Peer) moves(l *link) {
	l.receivedMs = p.nowMs
	if p.lead != nil && p.lead.stage == leaderSyncing && !l.observer && p.electors().Participants().Has(l.server) {
		p.lead.sinceMs = p.nowMs // its ack may be the one that the quorum lacks
	}
}

// countSilence starts the count of the leader's silence again.
func (p *Peer) countSilence() { p.learn.receivedMs = p.nowMs }

// ackNewLeader answers NEWLEADER (zab-Z3).
func (p *Peer) ackNewLeader() {
	invariant.Check(p.durable == p.history.last, "zab: NEWLEADER acknowledged before its history is durable (zab-Z3)")
	invariant.Check(p.current == p.learn.epoch, "zab: NEWLEADER acknowledged before its epoch is durable (zab-Z3)")
	p.learn.acked = p.durable
	p.send(p.learn.link, Message{Kind: KindAck, Zxid: zk.MakeZxid(p.learn.epoch, 0)})
}

// learnerUpToDate ends the synchronization: the leader is established. What was proposed
// meanwhile is logged now, and so is everything that follows.
func (p *Peer) learnerUpToDate(*Message) {
	ln := p.learn
	p.phase, ln.stage = Broadcast, learnerServing
	p.send(ln.link, Message{Kind: KindAck, Zxid: zk.MakeZxid(ln.epoch, 0)})
	committed := ln.pending.committed
	if p.opts.Observer {
		ln.pending.records = ln.pending.records[:committed] // the others come as INFORM
	}
	for i, r := range ln.pending.records {
		p.append(r)
		if i < committed {
			p.deliver(r)
		}
	}
	ln.pending = pending{}
	p.emit(Effect{Kind: EffectServe, Epoch: ln.epoch})
	if p.full {
		p.tellFull()
	}
	if ln.diverged {
		p.tellDiverged()
	}
	p.soughtMs = 0
	p.becomeMaster()
}

// followProposal logs a proposal. It is acknowledged when it is on disk (zab-Z5).
func (p *Peer) followProposal(m *Message) {
	if !follows(p.history.last, m.Zxid) || m.Zxid.Epoch() != p.learn.epoch {
		p.leave(ReasonGap)
		return
	}
	p.append(Record{m.Zxid, m.Payload})
}

// ackDurable acknowledges what has become durable, in order: each proposal by itself, or, on a
// cumulative link, all of them with the last. Observers acknowledge nothing.
func (p *Peer) ackDurable() {
	ln := p.learn
	if ln.stage != learnerServing || p.opts.Observer {
		return
	}
	durable := p.history.after(ln.acked)
	durable = durable[:len(durable)-len(p.history.after(max(ln.acked, p.durable)))]
	for i, r := range durable {
		ln.acked = r.Zxid
		if !ln.cumulative || i == len(durable)-1 || (i+1)%CumulativeMax == 0 {
			p.send(ln.link, Message{Kind: KindAck, Zxid: r.Zxid})
		}
	}
	invariant.Check(ln.acked <= p.durable, "zab: acknowledged what is not on disk (zab-Z5)")
}

// followCommit delivers the oldest proposals. This server's own sync of them may not be done
// yet: a quorum has them on disk.
func (p *Peer) followCommit(m *Message) {
	if p.inSnapshot(m) {
		return
	}
	waiting := p.history.after(p.delivered)
	n := p.committedBy(m, waiting)
	if n == 0 {
		p.leave(ReasonDivergence)
		return
	}
	for _, r := range waiting[:n] {
		p.deliver(r)
		if p.master != nil {
			p.inform(r, m)
		}
	}
	p.trimHistory()
}

// trimHistory trims the history but keeps what is not yet on disk and so not acknowledged.
func (p *Peer) trimHistory() {
	p.history.trim(p.opts.HistoryMax, p.opts.HistoryBytes, min(p.delivered, p.durable))
}

// learnerPing answers at once, even while the disk is slow. The replica that sends the answer
// adds the touches, and the zxid up to which the tree is the leader's.
func (p *Peer) learnerPing(m *Message) {
	if m.Zxid == pingBusy {
		return // the leader is busy and could not look at an answer
	}
	p.send(p.learn.link, Message{Kind: KindPing, Zxid: m.Zxid})
	if p.learn.diverged {
		p.tellDiverged()
	}
}

// onTouched sends an unasked ping.
func (p *Peer) onTouched(*Event) {
	if p.learn != nil && p.learn.stage == learnerServing {
		p.pingUnasked()
	}
}

// learnerSync answers the oldest sync: everything that was committed before it has arrived on
// this link before the answer.
func (p *Peer) learnerSync(*Message) {
	switch from := p.oldestSync(); {
	case from == 0:
		p.emit(Effect{Kind: EffectSynced})
	case p.served(from) != nil:
		p.send(from, Message{Kind: KindSync})
	}
}

// learnerRevalidate hands the leader's answer to the replica, with the link of the observer
// that asked, if there is one.
func (p *Peer) learnerRevalidate(m *Message) {
	p.emit(Effect{Kind: EffectRevalidated, Link: p.oldestAsked(), Session: m.Session, TimeoutMs: m.TimeoutMs, OK: m.Valid})
}

// onForward sends a client's request to the leader. If there is no leader, the request is
// dropped, together with its client's connection.
func (p *Peer) onForward(e *Event) {
	if p.learn != nil && p.learn.stage == learnerServing {
		if e.Request.Op == zk.OpSync {
			p.noteSync(e.Link)
		}
		p.send(p.learn.link, Message{Kind: KindRequest, Zxid: Behind(e.Link), Request: e.Request})
	}
}

func (p *Peer) onRevalidate(e *Event) {
	if p.learn != nil && p.learn.stage == learnerServing {
		p.noteAsked(e.Link)
		p.send(p.learn.link, Message{Kind: KindRevalidate, Zxid: Behind(e.Link), Session: e.Session, TimeoutMs: e.TimeoutMs})
	}
}

// onFailed handles the report that the log could not be truncated where the leader demanded it.
// Tree and log are read again, and the next leader is asked for the whole state. This holds
// even if the link to this leader was lost meanwhile, because in memory the log is already
// truncated.
func (p *Peer) onFailed(e *Event) {
	if !slices.ContainsFunc(p.disk, func(op operation) bool { return op.ticket == e.Ticket && op.kind == EffectTruncate }) {
		return
	}
	if p.state != Looking {
		p.leave(ReasonCannotTruncate)
		return
	}
	p.ended = true
	p.emit(Effect{Kind: EffectLeave, Reason: ReasonCannotTruncate, Reload: true})
}

func learnerIgnore(*Peer, *Message) {}
