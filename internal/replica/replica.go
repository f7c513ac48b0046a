// Package replica is one whole server as a machine: what has happened goes in
// as a batch of events, what must be done about it comes out.
//
// A Replica owns the tree, the sessions, the watches, and its part in the order
// of transactions (a zab.Peer) and in elections (a fle.Machine). Step takes
// everything that has arrived since the last one. It returns what is to be
// stored and what is to be sent to other servers, and tells the Clients, while
// it works, what goes to whom. It starts no goroutine, reads no clock and does
// no I/O: the server package feeds it, and so does the simulator.
//
// A request takes this way. It arrives, and finds its place after those of its
// connection (pipeline.go). A write goes to the leader: decided here if that is
// this server (propose.go), else forwarded (forward.go). What is decided is
// ordered, stored and committed by the peer (order.go), and delivered on every
// server in the same order: applied to the tree, told to watches, answered
// where it was asked (deliver.go). A read is answered in its place from the
// tree (read.go). A standalone server is a leader whose quorum is
// itself.
//
// What always holds, by number:
//
//	replica-R1  Nothing is told to a client before a quorum has it on disk.
//	replica-R2  Transactions are delivered in zxid order, without a gap.
//	replica-R3  The replies of one connection leave in the order of its
//	            requests.
//	replica-R4  A watch event leaves before any reply that shows the change, on
//	            every connection: both happen while readers are kept out of the
//	            tree.
//	replica-R5  A session's closing deletes its ephemerals in one transaction.
//	replica-R6  Clients are served in a role only: between two there are none.
package replica

import (
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/watch"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Options are the settings of a replica. Times are milliseconds.
type Options struct {
	ID                quorum.ID // its low byte is the top byte of new session ids
	Observer          bool      // takes part without a vote
	TickMs            int64
	InitMs            int64 // limit for each step of discovery and synchronization
	SyncMs            int64 // limit for silence between servers
	FinalizeMs        int64 // see fle.Config
	ResendMinMs       int64
	ResendMaxMs       int64
	HistoryMax        int   // committed transactions in memory for learners; 0 is ZooKeeper's 500
	HistoryBytes      int64 // and their bytes; 0 is 64 MiB
	CounterMax        uint32
	ForceSnapshot     bool
	SessionMinMs      int32
	SessionMaxMs      int32
	Auth              auth.Rules
	ExtendedTypes     bool
	EnforceQuota      bool
	NoDigest          bool
	LinearizableReads bool // every read waits for a sync
	LocalSessions     bool // see local.go
	UpgradeSessions   bool
	ReadOnly          bool // see readonly.go
	NoClientsOfLeader bool // a leader takes no clients
	ReconfigEnabled   bool
	Reconfig          ensemble.Rules
	Pending           *ensemble.Config // proposed when the server stopped, by its files; nil for none. Not one whose zxid the log has reached
	TxnBytesMax       int              // longest transaction that can be stored; 0 is no limit
	ReapIntervalMs    int64            // between looks for containers and TTL znodes; 0 is never
	ReapPerMinute     int
	MetMessage        func(zab.Row) // see zab.Options.Met
	MetVote           func(fle.Row) // see fle.Config.Met
	ContainerUnusedMs int64         // a container that never had children goes after this; 0 is never
}

// TouchIntervalMs is how far apart the heartbeats may be that a shell passes
// on: requests it answers itself need not all be told. Every touch counts for
// so much longer, so that no session expires early (session-S1). It is short, because
// it adds to the time until others learn that a client was killed.
func TouchIntervalMs(tickMs int64) int64 { return min(tickMs/2, 20) }

// ExpirySlackMs is how much longer than its timeout a session lasts at most, from
// the last heartbeat that the leader was told of to the step that ends it.
func ExpirySlackMs(tickMs int64) int64 { return TouchIntervalMs(tickMs) + expiryStepMs(tickMs) }

// expiryStepMs is the width of an expiry bucket, which adds to it as well.
func expiryStepMs(tickMs int64) int64 { return min(max(1, tickMs/2), 10) }

// Now is the time of a Step. Mono only ever grows and counts everything that
// expires; Wall becomes ctime and mtime.
type Now struct {
	MonoMs int64
	WallMs int64
	// ArrivedMs is when the oldest event of this Step arrived, and WaitsMs when the oldest
	// of those did that wait for a later one; 0 if there is none that was late. What has
	// not been looked at yet is no silence.
	ArrivedMs, WaitsMs int64
}

// Replica is a server's state machine. One goroutine owns it; only its Reader
// may be used by others.
type Replica struct {
	opts     Options
	tree     *tree.Tree
	watches  *watch.Table
	sessions *session.Table
	locals   *session.Table // sessions of this server alone
	reader   Reader
	conns    map[session.ConnID]*conn

	// The ensemble. Config and election are nil for a standalone server.
	config    *ensemble.Config // in force
	next      *ensemble.Config // proposed by a reconfig that is not committed
	learned   *ensemble.Config // proposed in a peer's log, or pending; for one election
	pending   *ensemble.Config // see Options.Pending; nil when an established leader has decided
	deciding  *ensemble.Config // decided here, on its way into the log
	offered   *ensemble.Config // what the leader said with NEWLEADER
	appointed *fle.Appointed   // who leads next, without an election
	reborn    bool             // this server has another part: its machines are to be made again
	reloading bool             // the disk was asked to read everything again
	peer      *zab.Peer
	election  *fle.Machine
	observes  bool        // what the election takes this server for
	orders    []zab.Event // for the peer, at the end of the step
	spare     []zab.Event
	leader    quorum.ID
	fruitless int    // elections since this server last had a role that was established
	lookAtMs  int64  // when to begin the next one, 0: none waits
	epoch     uint32 // established, 0 between roles

	// The role.
	serving      bool
	readOnly     bool
	lookingMs    int64                  // since when
	untrusted    bool                   // see Recovered
	needSnapshot bool                   // see zab.Stored
	loading      zab.LinkID             // a SNAP came on it and its state has not come
	base         zk.Zxid                // of that SNAP
	fuzzy        bool                   // the tree may be ahead of its zxid, so digests may differ
	wrongTree    bool                   // the tree is not that of its transactions; another one is on its way
	divergedMs   int64                  // when that was found last, 0: never
	ended        map[zk.SessionID]int64 // leader: sessions that have ended, and when, see isLocal
	same         bool                   // the last digest that was compared was that of the tree
	unready      bool                   // the same, so clients have to wait

	// Clients' requests on their way.
	writes       queue[waiting]
	syncs        queue[waiting]
	resuming     []resuming
	revalidating []resuming
	touched      map[zk.SessionID]int32 // on a learner, since the last ping: timeout in ms
	toldStep     uint64                 // in which the leader was last told of them before a ping of its own

	// The leader's.
	prep      *prep.Prep
	proposals queue[proposal]
	last      zk.Zxid // last one given
	reapMs    int64   // when to look for containers next
	// reapCredit is how many may be deleted at once, times a minute's milliseconds.
	reapCredit int64
	orphans    []zk.SessionID

	patient   bool  // since a pause, until sessions are looked at again; see onPaused
	pausedMs  int64 // when it began
	patientMs int64 // no session ends before
	beforeMs  int64 // the step before
	toldMs    int64 // when a learner has told its leader of touches by itself

	full    bool // the disk has no space
	locked  bool // the tree, against readers
	started bool
	steps   uint64
	applied tree.Applied
	tell    []session.ConnID
	now     Now
	clients Clients
	effects Effects
	counts  Counts
}

// conn is what the replica knows of a connection.
type conn struct {
	id         session.ConnID
	session    *session.Session
	identities []zk.Identity
	waits      ticket           // its last request that is on its way
	resuming   *session.Session // the session it will be attached to, see resume
	upgrading  bool             // its local session is on its way to be one that all know

	// Requests that came to the loop are numbered; told is the last one that was
	// answered.
	asked, told uint64
}

// noTicket is that of a connection that waits for nothing.
var noTicket = ticket{number: ^uint64(0)}

// Counts are totals since the start.
type Counts struct {
	Proposed, Delivered, Expired, Reaped, DigestMismatches, Elections int64
}

// New returns a replica with what recovery has found. A config of nil is that
// of a standalone server.
func New(opts Options, config *ensemble.Config, found Recovered, now Now) *Replica {
	r := &Replica{
		opts:      opts,
		config:    config,
		tree:      tree.New(tree.Options{ExtendedTypes: opts.ExtendedTypes}),
		watches:   watch.New(),
		sessions:  session.New(expiryStepMs(opts.TickMs), session.FirstID(uint8(opts.ID), now.WallMs), now.MonoMs),
		locals:    session.New(expiryStepMs(opts.TickMs), 1, now.MonoMs),
		lookingMs: now.MonoMs,
		conns:     map[session.ConnID]*conn{},
		touched:   map[zk.SessionID]int32{},
		ended:     map[zk.SessionID]int64{},
		now:       now,
	}
	r.reader = Reader{Tree: r.tree, Watches: r.watches, Auth: &r.opts.Auth}
	r.adopt(found.State)
	r.untrusted, r.fuzzy = found.Untrusted, found.Fuzzy
	if config == nil {
		r.peer = zab.New(r.peerOptions(), zab.Config{Quorum: quorum.NewMajority(opts.ID)}, found.Stored)
		r.lead(r.tree.LastZxid())
		return r
	}
	if found.WrongTree {
		r.doubtTree()
	}
	if m := config.Member(opts.ID); m != nil && opts.ReconfigEnabled {
		r.opts.Observer = m.Observer // a reconfig may have changed it since
	}
	if p := opts.Pending; opts.ReconfigEnabled && p != nil && p.Version > max(config.Version, int64(found.Stored.Last)) {
		r.pending = p // one whose zxid the log has reached has been decided, one way or the other
	}
	r.recall()
	r.putConfig()
	r.newPeer(found.Stored)
	r.newElection()
	return r
}

// newPeer makes the server's part in Zab again, from what is on disk.
func (r *Replica) newPeer(stored zab.Stored) {
	stored.NeedSnapshot = r.needSnapshot || r.wrongTree
	r.peer = zab.New(r.peerOptions(), zabConfig(r.config), stored)
	if r.next != nil {
		r.tellPeer(r.next, false)
	}
	if r.full {
		r.order(zab.Event{Kind: zab.EventSpace})
	}
}

func (r *Replica) newElection() {
	r.observes = r.opts.Observer
	r.election = fle.New(fle.Config{
		ID: r.opts.ID, Observer: r.opts.Observer, FinalizeMs: r.opts.FinalizeMs,
		ResendMinMs: r.opts.ResendMinMs, ResendMaxMs: r.opts.ResendMaxMs, Met: r.opts.MetVote,
	}, r.electionEnsemble())
}

func (r *Replica) peerOptions() zab.Options {
	o := zab.Options{
		ID: r.opts.ID, Observer: r.opts.Observer || r.untrusted && r.config != nil, DivergedMs: r.divergedMs,
		TickMs: r.opts.TickMs, InitMs: r.opts.InitMs, SyncMs: r.opts.SyncMs,
		HistoryMax: r.opts.HistoryMax, HistoryBytes: r.opts.HistoryBytes, CounterMax: r.opts.CounterMax, ForceSnapshot: r.opts.ForceSnapshot,
		Met: r.opts.MetMessage,
	}
	if r.config == nil {
		// Nobody is ever synchronized from the history.
		o.Solo, o.HistoryMax = true, 64
	}
	return o
}

func (r *Replica) newPrep() {
	r.prep = prep.New(r.tree, prep.Options{
		Auth: &r.opts.Auth, EnforceQuota: r.opts.EnforceQuota, NoDigest: r.opts.NoDigest,
		TxnBytesMax: r.opts.TxnBytesMax,
	})
}

// Tree returns the data tree, to write a snapshot of it.
func (r *Replica) Tree() *tree.Tree { return r.tree }

// Watches returns the watch table, for reports.
func (r *Replica) Watches() *watch.Table { return r.watches }

// Sessions returns the session table. Only the goroutine that steps the replica
// may use it.
func (r *Replica) Sessions() *session.Table { return r.sessions }

// Leases returns the sessions as a snapshot stores them.
func (r *Replica) Leases() []session.Lease { return r.sessions.Leases() }

// Reader returns what answers reads; it may be used by many goroutines.
func (r *Replica) Reader() *Reader { return &r.reader }

// Counts returns totals since the start.
func (r *Replica) Counts() Counts { return r.counts }

// Outstanding returns how many proposals of this server are not delivered yet.
func (r *Replica) Outstanding() int { return r.proposals.size() }

// Step takes a batch of events, tells clients what goes to them, and returns
// what must be stored and sent. The effects are valid until the next Step, but
// for Disk, which is given away.
func (r *Replica) Step(batch []Event, now Now, clients Clients) *Effects {
	invariant.Check(now.MonoMs >= r.now.MonoMs, "replica: time runs backwards")
	r.beforeMs, r.now, r.clients = r.now.MonoMs, now, clients
	r.effects.reset()
	r.steps++
	if !r.started {
		r.start()
	}
	if len(batch) > 0 && batch[0].Kind == EventPaused {
		r.onPaused()
		batch = batch[1:]
	}
	r.peer.Lag(r.lagMs())
	for i := range batch {
		handlers[batch[i].Kind](r, &batch[i])
	}
	r.expire()
	r.tellWhileBehind()
	r.electionTick()
	r.stepPeer()
	r.clients = nil
	return &r.effects
}

// start begins the first election.
func (r *Replica) start() {
	r.started = true
	if r.election != nil {
		r.look()
	}
}

// touchedMs is when a session that sends a heartbeat now counts as touched.
func (r *Replica) touchedMs() int64 { return r.now.MonoMs + TouchIntervalMs(r.opts.TickMs) }

// handlers says who takes which event.
var handlers = [eventKinds]func(*Replica, *Event){
	EventConnect:      (*Replica).onConnect,
	EventRequest:      (*Replica).onRequest,
	EventAuth:         (*Replica).onAuth,
	EventTouch:        (*Replica).onTouch,
	EventDisconnect:   (*Replica).onDisconnect,
	EventTick:         (*Replica).onTick,
	EventPaused:       func(*Replica, *Event) {}, // Step has looked at it
	EventDone:         (*Replica).onDone,
	EventFailed:       (*Replica).onFailed,
	EventRecovered:    (*Replica).onRecovered,
	EventDisk:         (*Replica).onDisk,
	EventNotification: (*Replica).onNotification,
	EventLinkUp:       (*Replica).onLinkUp,
	EventLinkDown:     (*Replica).onLinkDown,
	EventMessage:      (*Replica).onMessage,
	EventLoaded:       (*Replica).onLoaded,
	EventLogRead:      (*Replica).onLogRead,
	EventMoves:        (*Replica).onMoves,
}
