// Package zab orders transactions across an ensemble.
//
// A Peer is one server's part of the protocol: a state machine that takes
// Events and returns the Effects to carry out, in order. It starts no
// goroutine, reads no clock and does no I/O; a shell feeds it, and zabtest runs
// many of them in one thread. An election (package fle) says who leads; Zab is
// safe whatever it says. Then come discovery (discovery.go: an epoch that no
// quorum has seen), synchronization (synchronization.go, learner.go: everybody
// gets the leader's history) and broadcast (broadcast.go). It is Zab 1.0 as
// Apache ZooKeeper runs it, so that servers of both kinds can be mixed.
//
// What always holds, by number, so that code and tests can name it:
//
//	zab-Z1  accepted epoch >= current epoch, and >= the epoch of every record.
//	zab-Z2  Neither epoch ever falls.
//	zab-Z3  The current epoch is stored after the history it stands for, and
//	        NEWLEADER is answered when both are durable.
//	zab-Z4  The log has no gap: a record is the next of its epoch or the first
//	        of a later one.
//	zab-Z5  A proposal is acknowledged only when it is durable, and in order, by
//	        itself or, on a cumulative link, with all before it; the leader counts
//	        itself only when its own log has it.
//	zab-Z6  Transactions are delivered in zxid order, each once, none before it
//	        is in the log, or on its way there.
//	zab-Z7  A leader commits in order, at most what it has proposed, and only
//	        what a quorum of participants has; observers never count. With the
//	        oracle's permission it is enough that itself has it while no other
//	        participant is being given its history, or has it.
//	zab-Z8  On every link proposals leave in zxid order without a gap.
//	zab-Z9  No election begins while the disk still works for the last role
//	        (ZOOKEEPER-4712): Look comes after the last completion.
//	zab-Z10  A leader whose disk is full leads only while no quorum without it
//	         could write.
//	zab-Z11  An observer master hands on what it has delivered, in order and without
//	         a gap, and nothing else. Within an epoch no observer's history goes back.
//
// It does not know what a transaction means, how bytes look, or who should
// lead. A disk that fails is not its business: such a server must be stopped
// and recovered, never asked to go on.
package zab

import (
	"slices"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// State is a server's role.
type State uint8

// The states.
const (
	Looking State = iota
	Following
	Leading
	Observing
)

// Phase is where a server stands in the protocol.
type Phase uint8

// The phases.
const (
	Election Phase = iota
	Discovery
	Synchronization
	Broadcast
)

// Options are the settings of a peer. Times are in milliseconds.
type Options struct {
	ID            quorum.ID
	Life          int64 // of this process, another at each start; 0: not told
	Observer      bool  // takes part, does not vote
	TickMs        int64 // pings go out twice a tick, or more often: see PingMs
	InitMs        int64 // limit for each step of discovery and synchronization
	SyncMs        int64 // limit for silence afterwards
	DivergedMs    int64 // when this server gave up a role because of its tree; 0: never
	HistoryMax    int   // committed records kept in memory for DIFF; 0 is 500
	HistoryBytes  int64 // and at most so many bytes of them, a DIFF from memory too; 0 is 64 MiB
	CounterMax    uint32
	ForceSnapshot bool      // every learner gets SNAP
	NoLogSync     bool      // the log on disk is not read for learners
	OneByOne      bool      // no link is cumulative, as those of Apache's servers: for proofs
	Met           func(Row) // for proofs: is told of each row of the tables that has a handler and is used; nil in production
	Masters       bool      // a follower serves observers, an observer looks for such followers
	Solo          bool      // standalone: leads from the start, without an election or an epoch of its own
}

// PingMs is the time between two pings of a leader, and between two messages in which a
// learner that is behind says that it is there: as in ZooKeeper, but three within what
// counts as silence, so that one that is late is no election.
func (o *Options) PingMs() int64 { return max(1, min(o.TickMs/2, o.SyncMs/3)) }

// historyMax is ZooKeeper's commitLogCount; counterMax is never proposed: the
// next would carry into the epoch (ZOOKEEPER-1277).
const (
	historyMax   = 500
	historyBytes = 64 << 20
	counterMax   = 0xffffffff
)

// Stored is what recovery found on disk. The tree has all of it, and recovery
// has seen to it that the log has no gap (zab-Z4).
type Stored struct {
	Accepted, Current uint32
	Last              zk.Zxid  // of the log, or of the snapshot if that is newer
	Recent            []Record // the newest records, ending at Last; may be empty
	NeedSnapshot      bool     // the log could not be cut, or the tree is wrong: the whole state must come
}

// Peer is one server. One goroutine owns it.
type Peer struct {
	opts   Options
	config Config  // committed
	next   *Config // proposed by a reconfig that is not committed

	state State
	phase Phase
	ended bool // left with Reload: the peer is of no use any more

	mayLook bool // a role has ended, and Look was not said yet

	accepted, current uint32
	history           history
	durable           zk.Zxid  // the log is on disk up to here
	delivered         zk.Zxid  // the tree has everything up to here
	unsynced          bool     // appended without a sync
	promised          uint32   // highest epoch that a participant is known to have accepted
	yieldedMs         [3]int64 // when it yielded to such promises, 0 for never
	needSnapshot      bool     // the log could not be cut: the whole state must come
	full              bool     // the disk has no space for records
	alone             bool     // the oracle permits it to decide alone
	masterTries       int      // how often this observer has chosen a master
	soughtMs          int64    // since when it has sought one, 0: it has one
	toLeader          bool     // it goes to the leader next

	ticket Ticket
	disk   []operation
	lead   *leader
	learn  *learner
	master *master // a follower's that serves observers
	early  []earlyLink

	nowMs    int64
	lagMs    int64 // see Lag
	tickedMs int64 // what had arrived by then was looked at in the last tick
	effects  []Effect
}

// New returns a server that is looking.
func New(opts Options, config Config, stored Stored) *Peer {
	checkTables()
	if opts.HistoryMax == 0 {
		opts.HistoryMax = historyMax
	}
	if opts.HistoryBytes == 0 {
		opts.HistoryBytes = historyBytes
	}
	if opts.CounterMax == 0 {
		opts.CounterMax = counterMax
	}
	p := &Peer{
		opts: opts, config: config,
		accepted: stored.Accepted, current: stored.Current,
		durable: stored.Last, delivered: stored.Last, needSnapshot: stored.NeedSnapshot,
		history: newHistory(stored.Recent, stored.Last),
	}
	if n := len(stored.Recent); n > 0 {
		invariant.Check(stored.Recent[n-1].Zxid == stored.Last, "zab: the recent records do not end the log (zab-Z4)")
	}
	for i := 1; i < len(stored.Recent); i++ {
		invariant.Check(follows(stored.Recent[i-1].Zxid, stored.Recent[i].Zxid), "zab: the log has a gap (zab-Z4)")
	}
	p.history.trim(opts.HistoryMax, opts.HistoryBytes, stored.Last) // recovery may have read more
	if opts.Solo {
		p.serveAlone()
	}
	p.check()
	return p
}

// Step takes what has happened and returns what to do. The slice is valid until
// the next step. Time must not go back. It is looked at before the events: what
// a process receives when it wakes from a suspension is too late to save a role
// that has run out.
func (p *Peer) Step(nowMs int64, batch []Event) []Effect {
	invariant.Check(nowMs >= p.nowMs, "zab: time runs backwards")
	clear(p.effects)
	p.effects = p.effects[:0]
	if lookedMs := nowMs - p.lagMs; nowMs > p.nowMs || lookedMs > p.tickedMs {
		p.nowMs, p.tickedMs = nowMs, lookedMs
		p.tick()
	}
	for i := range batch {
		if !p.ended || batch[i].Kind == EventLinkUp || batch[i].Kind == EventLinkDown {
			eventHandlers[batch[i].Kind](p, &batch[i])
		}
	}
	p.yield()
	p.flush()
	p.askForSyncs()
	p.check()
	return p.effects
}

// Lag says for the next steps how long ago that arrived, in milliseconds, which the
// caller has not handed over yet: silence is judged as of then. A server that is behind
// with its work must take no other for silent whose messages wait.
func (p *Peer) Lag(ms int64) { p.lagMs = ms }

// lookedAtMs is up to when everything that arrived has been handed over.
func (p *Peer) lookedAtMs() int64 { return p.nowMs - p.lagMs }

// eventHandlers says who takes which event.
var eventHandlers = [eventKinds]func(*Peer, *Event){
	EventTick:        func(*Peer, *Event) {}, // Step has looked at the time
	EventElected:     (*Peer).onElected,
	EventLinkUp:      (*Peer).onLinkUp,
	EventLinkDown:    (*Peer).onLinkDown,
	EventReceive:     (*Peer).onReceive,
	EventDone:        (*Peer).onDone,
	EventFailed:      (*Peer).onFailed,
	EventLogRead:     (*Peer).onLogRead,
	EventPropose:     (*Peer).onPropose,
	EventForward:     (*Peer).onForward,
	EventRevalidate:  (*Peer).onRevalidate,
	EventTouched:     (*Peer).onTouched,
	EventRevalidated: (*Peer).onRevalidated,
	EventSync:        (*Peer).onSync,
	EventConfig:      (*Peer).onConfig,
	EventStop:        func(p *Peer, _ *Event) { p.leave(ReasonStopped) },
	EventSpace:       (*Peer).onSpace,
	EventDiverged:    (*Peer).onDiverged,
	EventMoves:       (*Peer).onMoves,
	EventOracle:      (*Peer).onOracle,
}

// WakeMs returns when the peer wants a step at the latest, for what it does by
// the clock alone; false if only an event can move it.
func (p *Peer) WakeMs() (int64, bool) {
	switch {
	case p.lead != nil:
		return p.leaderWakeMs()
	case p.learn != nil && !p.learn.storing():
		wakeMs := p.learn.receivedMs + p.silenceMs() + 1 + p.lagMs
		if p.master != nil && len(p.master.links) > 0 {
			wakeMs = min(wakeMs, p.master.pingMs)
		}
		return wakeMs, true
	}
	return 0, false // what waits for its own disk has no limit
}

// State returns the server's role.
func (p *Peer) State() State { return p.state }

// Phase returns where it stands in the protocol.
func (p *Peer) Phase() Phase { return p.phase }

// Last returns the zxid of the last record in the log: what a vote claims.
func (p *Peer) Last() zk.Zxid { return p.history.last }

// Epochs returns the accepted and the current epoch, as they are on disk.
func (p *Peer) Epochs() (accepted, current uint32) { return p.accepted, p.current }

// Delivered returns the zxid up to which transactions were delivered.
func (p *Peer) Delivered() zk.Zxid { return p.delivered }

// Durable returns the zxid up to which this server's own log is on disk. A
// follower may have delivered more: a quorum has it.
func (p *Peer) Durable() zk.Zxid { return p.durable }

// Quiet reports whether an election may begin.
func (p *Peer) Quiet() bool { return p.state == Looking && len(p.disk) == 0 && !p.ended }

func (p *Peer) emit(e Effect) { p.effects = append(p.effects, e) }

func (p *Peer) send(link LinkID, m Message) {
	p.emit(Effect{Kind: EffectSend, Link: link, Message: m})
}

// onElected takes up a role (zab-Z9).
func (p *Peer) onElected(e *Event) {
	invariant.Check(p.Quiet(), "zab: elected while the disk works for an older role (zab-Z9)")
	p.phase = Discovery
	if e.Server == p.opts.ID && !p.opts.Observer {
		p.becomeLeader()
	} else {
		p.becomeLearner(e)
	}
	p.takeEarly()
}

// onLinkUp greets a connection: a learner's own goes to its leader, one from
// elsewhere is a learner that wants to be led.
func (p *Peer) onLinkUp(e *Event) {
	switch {
	case e.Outgoing && p.learn != nil && p.learn.stage == learnerConnecting:
		p.hello(e.Link)
	case !e.Outgoing && e.Observers == (p.lead == nil) && p.serves() != nil:
		p.welcome(e.Link)
	case !e.Outgoing && !e.Observers && p.state == Looking && len(p.early) < earlyLinksMax:
		p.early = append(p.early, earlyLink{id: e.Link})
	default:
		p.emit(Effect{Kind: EffectClose, Link: e.Link})
	}
}

func (p *Peer) onLinkDown(e *Event) {
	p.early = slices.DeleteFunc(p.early, func(l earlyLink) bool { return l.id == e.Link })
	switch {
	case p.served(e.Link) != nil:
		p.serves().remove(e.Link)
	case p.learn != nil && e.Link == p.learn.link:
		p.learn.link = 0 // there is nothing to close
		p.leave(ReasonLinkLost)
	}
}

// onReceive looks the message up in the table of the role. Frames of links that
// are not ours any more are dropped.
func (p *Peer) onReceive(e *Event) {
	if e.Message.Kind >= kinds {
		return // as ZooKeeper: unknown packets are ignored
	}
	if p.lead != nil {
		if l := p.lead.byID[e.Link]; l != nil {
			p.fromLearnerTo(l, e.Message)
		}
		return
	}
	if p.learn != nil && e.Link == p.learn.link {
		p.fromLeaderTo(e.Message)
		return
	}
	if p.master != nil {
		if l := p.master.byID[e.Link]; l != nil {
			p.fromObserverTo(l, e.Message)
		}
		return
	}
	p.keepHello(e)
}

// earlyLink is a learner's connection that came while this server was looking:
// the learner knows already who leads. It has said hello, if anything, and
// waits for an answer.
type earlyLink struct {
	id    LinkID
	hello *Message
}

// keepHello keeps what a learner says first on such a connection, and of that no more than a
// hello has. A learner begins with one: another message ends the connection, and so does the
// hello of one that means another server.
func (p *Peer) keepHello(e *Event) {
	at := slices.IndexFunc(p.early, func(l earlyLink) bool { return l.id == e.Link })
	if at < 0 || p.early[at].hello != nil {
		return
	}
	if kind := e.Message.Kind; kind != KindFollowerInfo && kind != KindObserverInfo || p.isForAnother(e.Message) {
		p.early = slices.Delete(p.early, at, at+1)
		p.emit(Effect{Kind: EffectClose, Link: e.Link})
		return
	}
	p.early[at].hello = &Message{Kind: e.Message.Kind, Zxid: e.Message.Zxid, Leader: e.Message.Leader, Epoch: e.Message.Epoch, Hello: e.Message.Hello}
}

// Waiting returns the links of learners that wait for this server to lead. A caller
// that discards the peer closes them: the next one does not know them, and the
// learners would wait for their whole limit.
func (p *Peer) Waiting() []LinkID {
	ids := make([]LinkID, 0, len(p.early))
	for _, l := range p.early {
		ids = append(ids, l.id)
	}
	return ids
}

// earlyLinksMax bounds them.
const earlyLinksMax = 1024

// takeEarly lets the learners in that came before this server knew that it leads.
func (p *Peer) takeEarly() {
	early := p.early
	p.early = nil
	for _, l := range early {
		if p.lead == nil {
			p.emit(Effect{Kind: EffectClose, Link: l.id})
			continue
		}
		p.welcome(l.id)
		if l.hello != nil {
			p.onReceive(&Event{Kind: EventReceive, Link: l.id, Message: l.hello})
		}
	}
}

func (p *Peer) tick() {
	switch {
	case p.lead != nil:
		p.leaderTick()
	case p.learn != nil:
		p.learnerTick()
	}
}

// leave ends a role. Clients and links are disconnected at once; the next election
// waits until the log is quiet, so that nothing of this role lands in it later
// (zab-Z9, ZOOKEEPER-4712) and the vote counts what was logged (ZOOKEEPER-2845).
// If the tree and the log do not agree any more, the server must be recovered from
// disk and this peer thrown away (ZOOKEEPER-3642, 4882).
func (p *Peer) leave(reason Reason) {
	if p.state == Looking {
		return
	}
	p.flush()
	p.leaveMaster()
	reload := reason == ReasonCannotTruncate || reason == ReasonDiverged
	if p.learn != nil {
		reload = reload || p.learn.treeReplaced
		if p.learn.link != 0 {
			p.emit(Effect{Kind: EffectClose, Link: p.learn.link})
		}
	}
	if p.lead != nil {
		for _, l := range p.lead.links {
			p.emit(Effect{Kind: EffectClose, Link: l.id})
		}
	}
	p.lead, p.learn = nil, nil
	p.state, p.phase = Looking, Election
	p.ended = reload
	p.emit(Effect{Kind: EffectLeave, Reason: reason, Reload: reload})
	p.mayLook = true
	p.quiet()
}

// quiet says that an election may begin, once for each role that has ended: as
// soon as the disk has nothing to do for it any more.
func (p *Peer) quiet() {
	if p.mayLook && p.Quiet() {
		p.mayLook = false
		p.emit(Effect{Kind: EffectLook})
	}
}

// deliver gives a transaction to the tree (zab-Z6).
func (p *Peer) deliver(r Record) {
	invariant.Check(follows(p.delivered, r.Zxid), "zab: delivery out of order (zab-Z6)")
	p.delivered = r.Zxid
	p.emit(Effect{Kind: EffectDeliver, Record: r})
}

// check is what must hold between two steps.
func (p *Peer) check() {
	invariant.Check(p.accepted >= p.current, "zab: current epoch above the accepted one (zab-Z1)")
	invariant.Check(p.history.last.Epoch() <= p.accepted, "zab: a record of an epoch that was never accepted (zab-Z1)")
	invariant.Check(p.delivered <= p.history.last, "zab: delivered what is not in the log (zab-Z6)")
	invariant.Check(p.master == nil || p.state == Following && p.phase == Broadcast, "zab: an observer master does not follow (zab-Z11)")
	if p.lead != nil {
		invariant.Check(p.lead.committed <= p.history.last, "zab: committed what was not proposed (zab-Z7)")
		invariant.Check(p.lead.stage < leaderServing || p.delivered == p.lead.committed,
			"zab: the leader's tree is not at what it committed (zab-Z7)")
		invariant.Check(!p.full || p.opts.Solo || p.indispensable(), "zab: leads with a full disk where others could (zab-Z10)")
	}
}
