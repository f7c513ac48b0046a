// Package zab orders transactions across an ensemble.
//
// A Peer is one server's part of the protocol: a state machine that takes Events and returns
// the Effects to carry out, in order. It starts no goroutine, reads no clock and does no I/O. A
// shell feeds it, and zabtest runs many of them in one thread.
//
// An election (package fle) says who leads; Zab is safe whatever it says. Then come three
// phases: discovery (discovery.go) finds an epoch that no quorum has seen, synchronization
// (synchronization.go, learner.go) gives everybody the leader's history, and broadcast
// (broadcast.go) orders new transactions. The protocol is Zab 1.0 as Apache ZooKeeper runs it,
// so servers of both kinds can be mixed.
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
//	        itself only when its own log has the proposal.
//	zab-Z6  Transactions are delivered in zxid order, each once, none before it
//	        is in the log, or on its way there.
//	zab-Z7  A leader commits in order, at most what it has proposed, and only
//	        what a quorum of participants has; observers never count. With the
//	        oracle's permission it is enough that the leader itself has it, while
//	        no other participant has its history or is being sent it.
//	zab-Z8  On every link proposals leave in zxid order without a gap.
//	zab-Z9  No election begins while the disk still works for the last role
//	        (ZOOKEEPER-4712): Look comes after the last completion.
//	zab-Z10  A leader whose disk is full leads only while no quorum without it
//	         could write.
//	zab-Z11  An observer master hands on what it has delivered, in order and without
//	         a gap, and nothing else. Within an epoch no observer's history goes back.
//
// The package does not know what a transaction means, how messages are encoded, or who should
// lead. A failing disk is not its concern: such a server must be stopped and recovered, never
// asked to go on.
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
	Life          int64 // identifies this process, different at each start; 0: not told
	Observer      bool  // takes part but does not vote
	TickMs        int64 // pings are sent twice per tick, or more often: see PingMs
	InitMs        int64 // limit for each step of discovery and synchronization
	SyncMs        int64 // limit for silence once a learner is synchronized
	DivergedMs    int64 // when this server last gave up a role because its tree was wrong; 0: never
	HistoryMax    int   // committed records kept in memory for DIFF; 0 is 500
	HistoryBytes  int64 // and at most this many bytes of them; the limit of a DIFF from memory, too; 0 is 64 MiB
	CounterMax    uint32
	ForceSnapshot bool      // every learner gets SNAP
	OneByOne      bool      // no link is cumulative, as with Apache servers: for proofs
	Met           func(Row) // for proofs: called for each row of the tables that has a handler and is used; nil in production
	Masters       bool      // a follower serves observers, and an observer connects to such followers
	Solo          bool      // standalone: leads from the start, without an election or an epoch of its own
}

// PingMs returns the time between two pings of a leader, and between two messages with which a
// learner that is behind shows that it is alive. It is that of ZooKeeper, but at least three
// pings fit in the limit for silence, so that one late ping does not cause an election.
func (o *Options) PingMs() int64 { return max(1, min(o.TickMs/2, o.SyncMs/3)) }

// historyMax is ZooKeeper's commitLogCount. counterMax is never proposed, because the next
// counter would overflow into the epoch (ZOOKEEPER-1277).
const (
	historyMax   = 500
	historyBytes = 64 << 20
	counterMax   = 0xffffffff
)

// Stored is what recovery found on disk. The tree has all of it, and recovery has made sure
// that the log has no gap (zab-Z4).
type Stored struct {
	Accepted, Current uint32
	Last              zk.Zxid  // zxid of the end of the log, or of the snapshot if that is newer
	Recent            []Record // the newest records, ending at Last; may be empty
	NeedSnapshot      bool     // the log could not be truncated, or the tree is wrong: the whole state must be sent
}

// Peer is one server. One goroutine owns it.
type Peer struct {
	opts   Options
	config Config  // committed
	next   *Config // proposed by a reconfig that is not committed

	state State
	phase Phase
	ended bool // left with Reload: the peer is no longer usable

	mayLook bool // a role has ended, and EffectLook has not been emitted yet

	accepted, current uint32
	history           history
	durable           zk.Zxid  // the log is on disk up to here
	delivered         zk.Zxid  // the tree has everything up to here
	unsynced          bool     // records were appended but no sync was issued yet
	promised          uint32   // highest epoch that a participant is known to have accepted
	yieldedMs         [3]int64 // when it last yielded to such promises, 0 for never
	needSnapshot      bool     // the log could not be truncated: the whole state must be sent
	full              bool     // the disk has no space for records
	alone             bool     // the oracle permits it to decide alone
	masterTries       int      // how often this observer has chosen a master
	soughtMs          int64    // since when it has been looking for a master, 0: it has one
	toLeader          bool     // it connects to the leader next, not to a master

	ticket Ticket
	disk   []operation
	lead   *leader
	learn  *learner
	master *master // of a follower that serves observers
	early  []earlyLink

	nowMs    int64
	lagMs    int64 // see Lag
	tickedMs int64 // everything that had arrived by then was considered in the last tick
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

// Step takes what has happened and returns what to do. The slice is valid until the next step.
// Time must not go back. The clock is handled before the events: what a process receives when
// it wakes from a suspension is too late to save a role whose time has run out.
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

// Lag sets, for the next steps, how far the caller is behind: the age in milliseconds of the
// oldest arrival that it has not handed over yet. Silence is judged as of that moment. A server
// that is behind with its work must not consider another server silent while that server's
// messages wait.
func (p *Peer) Lag(ms int64) { p.lagMs = ms }

// lookedAtMs returns the time up to which everything that arrived has been handed over.
func (p *Peer) lookedAtMs() int64 { return p.nowMs - p.lagMs }

// eventHandlers maps each kind of event to its handler.
var eventHandlers = [eventKinds]func(*Peer, *Event){
	EventTick:        func(*Peer, *Event) {}, // Step has handled the time already
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

// WakeMs returns when the peer needs a step at the latest because of the clock; false if only
// an event can change anything.
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
	return 0, false // waiting for this server's own disk has no limit
}

// State returns the server's role.
func (p *Peer) State() State { return p.state }

// Phase returns where it stands in the protocol.
func (p *Peer) Phase() Phase { return p.phase }

// Last returns the zxid of the last record in the log, which a vote claims.
func (p *Peer) Last() zk.Zxid { return p.history.last }

// Epochs returns the accepted and the current epoch, as they are on disk.
func (p *Peer) Epochs() (accepted, current uint32) { return p.accepted, p.current }

// Delivered returns the zxid up to which transactions were delivered.
func (p *Peer) Delivered() zk.Zxid { return p.delivered }

// Durable returns the zxid up to which this server's own log is on disk. A follower may have
// delivered more, because a quorum has it on disk.
func (p *Peer) Durable() zk.Zxid { return p.durable }

// Quiet reports whether an election may begin.
func (p *Peer) Quiet() bool { return p.state == Looking && len(p.disk) == 0 && !p.ended }

func (p *Peer) emit(e Effect) { p.effects = append(p.effects, e) }

func (p *Peer) send(link LinkID, m Message) {
	p.emit(Effect{Kind: EffectSend, Link: link, Message: m})
}

// onElected begins a role (zab-Z9).
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

// onLinkUp handles a new connection: on one that this server made as a learner it sends its
// hello; one from elsewhere is a learner that wants to follow. While the disk works for a role that
// has ended, this server cannot be elected: what connects then wants that role, and would wait.
func (p *Peer) onLinkUp(e *Event) {
	switch {
	case e.Outgoing && p.learn != nil && p.learn.stage == learnerConnecting:
		p.hello(e.Link)
	case !e.Outgoing && e.Observers == (p.lead == nil) && p.serves() != nil:
		p.welcome(e.Link)
	case !e.Outgoing && !e.Observers && p.state == Looking && (p.ended || len(p.disk) == 0) && len(p.early) < earlyLinksMax:
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

// onReceive looks the message up in the table of the role. Messages of links that are no longer
// ours are dropped.
func (p *Peer) onReceive(e *Event) {
	if e.Message.Kind >= kinds {
		return // as ZooKeeper does: unknown packets are ignored
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

// earlyLink is the connection of a learner that arrived while this server was still looking:
// the learner already knows who leads. It may have sent a hello, and waits for an answer.
type earlyLink struct {
	id    LinkID
	hello *Message
}

// keepHello keeps the first message of a learner on such a connection, but only the fields of a
// hello. A learner begins with a hello: any other message ends the connection, and so does a
// hello that means another server.
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

// Waiting returns the links of learners that wait for this server to lead. A caller that
// discards the peer must close them: the next peer does not know them, and the learners would
// wait until their time limit.
func (p *Peer) Waiting() []LinkID {
	ids := make([]LinkID, 0, len(p.early))
	for _, l := range p.early {
		ids = append(ids, l.id)
	}
	return ids
}

// earlyLinksMax bounds the number of early links.
const earlyLinksMax = 1024

// takeEarly lets in the learners that arrived before this server knew that it leads.
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

// leave ends a role. Clients and links are disconnected at once. The next election waits until
// the log is quiet, so that nothing of this role is logged later (zab-Z9, ZOOKEEPER-4712) and
// the vote counts what was logged (ZOOKEEPER-2845). If the tree and the log no longer agree,
// the server must be recovered from disk and this peer discarded (ZOOKEEPER-3642, 4882).
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

// quiet emits EffectLook, which allows an election, once for each role that has ended: as soon
// as the disk has nothing left to do for that role.
func (p *Peer) quiet() {
	if p.mayLook && p.Quiet() {
		p.mayLook = false
		p.emit(Effect{Kind: EffectLook})
	}
}

// deliver hands a transaction to the tree (zab-Z6).
func (p *Peer) deliver(r Record) {
	invariant.Check(follows(p.delivered, r.Zxid), "zab: delivery out of order (zab-Z6)")
	p.delivered = r.Zxid
	p.emit(Effect{Kind: EffectDeliver, Record: r})
}

// check asserts what must hold between two steps.
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
