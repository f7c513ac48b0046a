package zab

import (
	"cmp"
	"slices"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// learnerStage is how far a learner has come.
type learnerStage uint8

const (
	learnerConnecting learnerStage = iota // Connect was asked for
	learnerGreeting                       // hello sent
	learnerPromising                      // the accepted epoch is being stored
	learnerAgreed                         // ACKEPOCH sent
	learnerSyncing                        // history comes
	learnerStoring                        // NEWLEADER came; history and epoch are being stored
	learnerReady                          // NEWLEADER acknowledged
	learnerServing                        // UPTODATE came

	learnerStages
)

// claim is what a server says of its history. Claims are ordered by epoch, then by
// zxid, and the one that is true of a server never falls.
type claim struct {
	epoch int64
	zxid  zk.Zxid
}

func (c claim) less(o claim) bool { return c.epoch < o.epoch || c.epoch == o.epoch && c.zxid < o.zxid }

// learner is what a server knows while it follows or observes.
type learner struct {
	leader     quorum.ID
	from       quorum.ID // whom it gets its history from: the leader, or an observer master
	voted      claim     // of the leader, when it was elected
	link       LinkID
	stage      learnerStage
	receivedMs int64
	epoch      uint32 // the leader's
	cumulative bool   // the link to it is, see Hello
	pending    pending
	acked      zk.Zxid // of proposals in broadcast

	snapshot     bool    // synchronized by SNAP
	base         zk.Zxid // of that
	treeReplaced bool    // by a snapshot that is not on disk: nothing of the tree may be kept
	cutting      bool    // the log is being truncated
	hasNewLeader bool    // NEWLEADER came meanwhile

	diverged bool // the tree is another one than the transactions make
}

// becomeLearner looks for the leader. Phase and silence count from now.
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

// learnerTick leaves a leader that is silent.
func (p *Peer) learnerTick() {
	if !p.learn.storing() && p.lookedAtMs()-p.learn.receivedMs > p.silenceMs() {
		p.leave(ReasonSilence)
		return
	}
	p.masterTick()
}

// storing reports whether the learner waits for its own disk, whose time is not the
// leader's silence.
func (ln *learner) storing() bool { return ln.stage == learnerPromising || ln.stage == learnerStoring }

// silenceMs is how long the leader may say nothing. It changes exactly with the
// ack of NEWLEADER, on both sides: a large snapshot takes its time.
func (p *Peer) silenceMs() int64 {
	if p.learn.stage >= learnerReady {
		return p.opts.SyncMs
	}
	return p.opts.InitMs
}

// learnerDiff says that the learner's log is the beginning of the leader's
// history. The zxid in it is where the leader is, not where the learner will be
// (ZOOKEEPER-2355).
func (p *Peer) learnerDiff(*Message) { p.beginSync() }

// learnerTrunc truncates the log. Nothing is logged before that is done.
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

// learnerSnap takes the leader's whole tree in place of its own. What the log
// has stays there until the new state is a durable snapshot at NEWLEADER: a
// crash on the way must not lose what this server has acknowledged.
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
	p.next = nil // of a history that is given up; a newer one is in the snapshot, or follows
	p.delivered = m.Zxid
}

func (p *Peer) beginSync() {
	p.phase = Synchronization
	p.learn.stage = learnerSyncing
}

// learnerProposal keeps a proposal that comes before UPTODATE. It must continue
// the history, the first one too: Java checks neither (ZOOKEEPER-4925).
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

// learnerCommit marks proposals that come before UPTODATE. It may come at any
// point of the synchronization (ZOOKEEPER-4394).
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

// committedBy is for how many records a commit stands, of those that wait for theirs: for the
// oldest, which it must name, or on a cumulative link for all up to the one that it names.
// 0 is another history: there is nothing to search for.
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

// inSnapshot reports whether a proposal or commit is of something that the snapshot
// has: Java takes the zxid of SNAP after it has begun to forward.
func (p *Peer) inSnapshot(m *Message) bool { return p.learn.snapshot && m.Zxid <= p.learn.base }

// learnerNewLeader ends the history.
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

// takeHistory makes the leader's history this server's own: first the history,
// then the epoch, then, when both are durable, the ack (zab-Z3). Any other order
// has lost data (ZOOKEEPER-3911, 4643, 4646, 4785). Proposals that are not
// committed wait for UPTODATE and are acknowledged one by one.
func (p *Peer) takeHistory() {
	ln := p.learn
	ln.stage = learnerStoring
	for _, r := range p.history.after(p.delivered) {
		p.deliver(r) // logged in an older role; the leader's history has them
	}
	for _, r := range ln.pending.takeCommitted() {
		if ln.snapshot {
			p.history.append(r) // the snapshot will hold it
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

// learnerStored continues what waited for the disk.
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

// onMoves receives that a history is on its way, however long it takes: a learner that
// takes it is not silent, and neither is the leader that a snapshot comes from. ZooKeeper's
// limits are for each read of the socket, and for the ack after the history. A learner
// that has it can speak.
func (p *Peer) onMoves(e *Event) {
	switch {
	case p.learn != nil && p.learn.link == e.Link:
		p.countSilence()
	default:
		if l := p.served(e.Link); l != nil && l.stage < linkSynced {
			p.moves(l)
		}
	}
}

// moves notes that a learner is being sent what it lacks, and has nothing to say meanwhile.
func (p *Peer) moves(l *link) {
	l.receivedMs = p.nowMs
	if p.lead != nil && p.lead.stage == leaderSyncing && !l.observer && p.electors().Participants().Has(l.server) {
		p.lead.sinceMs = p.nowMs // its ack may be the one that is missing
	}
}

// countSilence counts the leader's silence from now on.
func (p *Peer) countSilence() { p.learn.receivedMs = p.nowMs }

// ackNewLeader answers NEWLEADER (zab-Z3).
func (p *Peer) ackNewLeader() {
	invariant.Check(p.durable == p.history.last, "zab: NEWLEADER acknowledged before its history is durable (zab-Z3)")
	invariant.Check(p.current == p.learn.epoch, "zab: NEWLEADER acknowledged before its epoch is durable (zab-Z3)")
	p.learn.acked = p.durable
	p.send(p.learn.link, Message{Kind: KindAck, Zxid: zk.MakeZxid(p.learn.epoch, 0)})
}

// learnerUpToDate ends the synchronization: the leader is established. What was
// proposed meanwhile is logged now, like all that follows.
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

// followProposal logs a proposal; its ack waits for the disk (zab-Z5).
func (p *Peer) followProposal(m *Message) {
	if !follows(p.history.last, m.Zxid) || m.Zxid.Epoch() != p.learn.epoch {
		p.leave(ReasonGap)
		return
	}
	p.append(Record{m.Zxid, m.Payload})
}

// ackDurable acknowledges what has become durable: each proposal by itself, in
// order, or on a cumulative link all with the last. Observers acknowledge nothing.
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

// followCommit delivers the oldest proposals. Their own sync may still be on the
// way: a quorum has them.
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

// trimHistory keeps what is not acknowledged, too.
func (p *Peer) trimHistory() {
	p.history.trim(p.opts.HistoryMax, p.opts.HistoryBytes, min(p.delivered, p.durable))
}

// learnerPing answers at once, also while the disk is slow. The touches, and how far
// the tree is the leader's, are put in by the replica that sends it.
func (p *Peer) learnerPing(m *Message) {
	if m.Zxid == pingBusy {
		return // the leader could not look at an answer
	}
	p.send(p.learn.link, Message{Kind: KindPing, Zxid: m.Zxid})
	if p.learn.diverged {
		p.tellDiverged()
	}
}

// onTouched sends a ping that answers none.
func (p *Peer) onTouched(*Event) {
	if p.learn != nil && p.learn.stage == learnerServing {
		p.pingUnasked()
	}
}

// learnerSync answers the oldest sync: all that was committed before it has
// come before it on this link.
func (p *Peer) learnerSync(*Message) {
	switch from := p.oldestSync(); {
	case from == 0:
		p.emit(Effect{Kind: EffectSynced})
	case p.served(from) != nil:
		p.send(from, Message{Kind: KindSync})
	}
}

// learnerRevalidate hands the leader's answer to the replica, with the link of the observer
// that has asked, if one has.
func (p *Peer) learnerRevalidate(m *Message) {
	p.emit(Effect{Kind: EffectRevalidated, Link: p.oldestAsked(), Session: m.Session, TimeoutMs: m.TimeoutMs, OK: m.Valid})
}

// onForward sends a client's request to the leader. One that comes when there
// is none is dropped, with its client's connection.
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

// onFailed learns that the log could not be cut where the leader said. Tree and
// log are read again, and the next leader is asked for everything; also when the
// link to this one was lost meanwhile, for the memory says that the log was truncated.
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
