// Package replica is one whole server as a state machine: it takes batches of events, and
// returns what must be done about them.
//
// A Replica owns the tree, the sessions, the watches, and its part in the order of transactions
// (a zab.Peer) and in elections (a fle.Machine). Step takes everything that has arrived since
// the last one. It returns what must be stored and what must be sent to other servers, and
// while it works it tells the Clients what to send to each connection. It starts no goroutine,
// reads no clock and does no I/O: the server package feeds it, and so does the simulator.
//
// A request takes this path. It arrives, and gets its place after the earlier requests of its
// connection (pipeline.go). A write goes to the leader: it is decided here if that is this
// server (propose.go), otherwise it is forwarded (forward.go). A decided transaction is
// ordered, stored and committed by the peer (order.go), and delivered on every server in the
// same order: it is applied to the tree, watches fire, and the server that received the request
// answers it (deliver.go). A read is answered from the tree in its place (read.go). A
// standalone server is a leader whose quorum is itself. What observers send to a follower that
// serves them is forwarded to the leader (master.go).
//
// The state of a Replica is divided into parts, each in a file of its own: which configurations
// count (ensemble.go), its part in elections (candidacy.go), its role and which clients are
// served (role.go), how far its memory and its tree can be trusted (trust.go), what its clients
// have on the way (requests.go), their heartbeats (touches.go), what it has decided as a leader
// (leading.go), and the last pause of the process (pause.go).
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
//	replica-R6  Clients are served only in a role: between two roles no client
//	            is served.
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
	// Zab has the options of this server's part in the order of transactions. The low byte of
	// its ID is the top byte of new session ids. Observer is the role at the start; Solo and
	// DivergedMs are set by the replica.
	Zab zab.Options
	// Election has the options for elections: its ID and Observer are overwritten with those of
	// Zab.
	Election fle.Config
	// Prep has the options for deciding transactions: its Auth is overwritten with the one
	// below.
	Prep prep.Options

	// SessionKey makes the ids of new sessions impossible to guess: it is a secret of this
	// start.
	SessionKey [16]byte

	SessionMinMs      int32
	SessionMaxMs      int32
	Auth              auth.Rules
	ExtendedTypes     bool
	LinearizableReads bool // every read waits for a sync
	LocalSessions     bool // see local.go
	UpgradeSessions   bool
	ReadOnly          bool // see readonly.go
	NoClientsOfLeader bool // a leader accepts no clients
	Oracle            bool // one of two participants may go on alone, as Now.PermittedMs says
	ReconfigEnabled   bool
	Reconfig          ensemble.Rules
	Pending           *ensemble.Config // proposed when the server stopped, according to its files; nil for none. Ignored if the log has reached its zxid
	ReapIntervalMs    int64            // between searches for containers and TTL znodes; 0 is never
	ReapPerMinute     int
	Audit             bool  // Effects.Audited is filled in
	ContainerUnusedMs int64 // a container that never had children is deleted after this; 0 is never
}

// TouchIntervalMs is how far apart the heartbeats may be that a shell passes on: it need not
// report every request that it answers itself. Every touch counts for that much longer, so that
// no session expires early (session-S1). It is short, because it adds to the time until others
// learn that a client was killed.
func TouchIntervalMs(tickMs int64) int64 { return min(tickMs/2, 20) }

// ExpirySlackMs is how much longer than its timeout a session lasts at most, from the last
// heartbeat that the leader was told of to the step that ends it.
func ExpirySlackMs(tickMs int64) int64 { return TouchIntervalMs(tickMs) + expiryStepMs(tickMs) }

// expiryStepMs is the width of an expiry bucket, which also adds to the slack.
func expiryStepMs(tickMs int64) int64 { return min(max(1, tickMs/2), 10) }

// Now is the time of a Step. Mono only ever grows, and everything that expires is measured by
// it; Wall becomes ctime and mtime.
type Now struct {
	MonoMs int64
	WallMs int64
	// ArrivedMs is when the oldest event of this Step that is not a client's request arrived.
	// WaitsMs is when the oldest of all events arrived that still waits for a later Step. 0 if
	// there is none that was late. What has not been looked at yet does not count as silence.
	// Requests do not count in ArrivedMs: they do not delay what other servers say.
	ArrivedMs, WaitsMs int64
	// PermittedMs is when the oracle's permission to go on alone ends; 0 if there is none. See
	// Options.Oracle and PermissionMs.
	PermittedMs int64
}

// Replica is a server's state machine. One goroutine owns it; only its Reader may be used by
// others. Each part owns its fields: only the part's own methods, in the file of its type,
// change them. The replica's methods do what concerns several parts.
type Replica struct {
	opts     Options
	tree     *tree.Tree
	watches  *watch.Table
	sessions *session.Table
	locals   *session.Table // sessions that only this server knows
	ids      *session.IDs
	reader   Reader
	fetcher  tree.Fetcher
	peer     *zab.Peer

	ensemble    ensembleState
	election    candidacy
	electionLog electionLog
	role        role
	trust       trust
	requests    requests
	touches     touches
	leading     leading
	pause       pause
	full        bool // the disk has no space

	// One step.
	now         Now
	steps       uint64
	longAnswers int    // total weight of those made in this step
	answered    Answer // the last answer made: its memory is used for the next one
	clients     Clients
	effects     Effects
	orders      []zab.Event // for the peer, at the end of the step
	spare       []zab.Event
	locked      bool // the tree is locked against readers
	remap       bool // the map of domains must be read again before readers are let in
	applied     tree.Applied
	tell        []session.ConnID
	permitted   permitted

	counts  Counts
	tallies Tallies

	unreadable error // from the start: a configuration in the data that could not be read
}

// Counts are totals since the start.
type Counts struct {
	Proposed, Delivered, Expired, Reaped, DigestMismatches, Elections int64

	Revalidated  int64 // sessions that learners have asked this leader about
	Unserved     int64 // connections that were closed because this server had no role
	StaleReplies int64 // writes whose client had disconnected when they were delivered
}

// New returns a replica with what recovery has found. A nil config means a standalone server.
func New(opts Options, config *ensemble.Config, found Recovered, now Now) *Replica {
	r := &Replica{
		opts:     opts,
		tree:     tree.New(tree.Options{ExtendedTypes: opts.ExtendedTypes}),
		watches:  watch.New(),
		sessions: session.New(expiryStepMs(opts.Zab.TickMs)),
		locals:   session.New(expiryStepMs(opts.Zab.TickMs)),
		ids:      session.NewIDs(uint8(opts.Zab.ID), opts.SessionKey, now.WallMs),
		ensemble: newEnsembleState(&opts, config, found.Stored.Last),
		role:     role{lookingMs: now.MonoMs},
		requests: requests{conns: map[session.ConnID]*conn{}},
		touches:  touches{timeouts: map[zk.SessionID]int32{}},
		now:      now,
	}
	r.reader = Reader{Tree: r.tree, Watches: r.watches, Auth: &r.opts.Auth}
	r.adopt(found.State)
	r.trust.recovered(&found)
	if config == nil {
		r.peer = zab.New(r.peerOptions(), zab.Config{Quorum: quorum.NewMajority(opts.Zab.ID)}, found.Stored)
		r.lead(r.tree.LastZxid())
		return r
	}
	if found.WrongTree {
		r.trust.doubtTree(now.MonoMs)
	}
	r.ensemble.noteCommitted(r.committedIn(found.State))
	r.ensemble.recall(r.recalled(found.State))
	r.unreadable = r.unreadableIn(found.State)
	r.putConfig()
	r.newPeer(found.Stored)
	r.newElection()
	return r
}

// LoggedConfig returns a reconfig that was logged and is newer than the configuration in force;
// nil for none. During the start it shows that the file is older than the data.
func (r *Replica) LoggedConfig() *ensemble.Config { return r.ensemble.next }

// Heartbeats appends the links on which another goroutine may send a heartbeat, zab.Busy, while
// this server is busy with a step.
func (r *Replica) Heartbeats(links []zab.LinkID) []zab.LinkID { return r.peer.Heartbeats(links) }

// newPeer creates the server's part in Zab again, from what is on disk.
func (r *Replica) newPeer(stored zab.Stored) {
	stored.NeedSnapshot = r.trust.wantsSnapshot()
	r.peer = zab.New(r.peerOptions(), zabConfig(r.ensemble.inForce), stored)
	if next := r.ensemble.next; next != nil {
		r.tellPeer(next, false)
	}
	if r.full {
		r.order(zab.Event{Kind: zab.EventSpace})
	}
	r.ensemble.tell(false) // the new peer knows nothing yet
	r.tellAlone()
}

func (r *Replica) newElection() {
	c := r.opts.Election
	c.ID, c.Observer = r.opts.Zab.ID, r.ensemble.observer
	r.election.enrol(c, r.ensemble.forElection())
}

func (r *Replica) peerOptions() zab.Options {
	o := r.opts.Zab
	o.Observer, o.DivergedMs = r.ensemble.observer, r.trust.divergedMs
	if r.ensemble.standalone() {
		// Nobody is ever synchronized from this history.
		o.Solo, o.HistoryMax = true, 64
	} else if r.trust.voteless() {
		o.Observer, o.Masters = true, false // only a leader can restore its vote
	}
	return o
}

func (r *Replica) newPrep() *prep.Prep {
	o := r.opts.Prep
	o.Auth, o.OverQuota = &r.opts.Auth, &r.tallies.OverQuota
	return prep.New(r.tree, o)
}

// Tree returns the data tree, for writing a snapshot of it.
func (r *Replica) Tree() *tree.Tree { return r.tree }

// Watches returns the watch table, for reports.
func (r *Replica) Watches() *watch.Table { return r.watches }

// Sessions returns the session table. Only the goroutine that steps the replica
// may use it.
func (r *Replica) Sessions() *session.Table { return r.sessions }

// Leases returns the sessions as a snapshot stores them.
func (r *Replica) Leases() []session.Lease { return r.sessions.Leases() }

// Reader returns the part that answers reads; many goroutines may use it.
func (r *Replica) Reader() *Reader { return &r.reader }

// Counts returns totals since the start.
func (r *Replica) Counts() Counts { return r.counts }

// Outstanding returns how many of this server's proposals are not delivered yet.
func (r *Replica) Outstanding() int { return r.leading.proposals.size() }

// Step takes a batch of events, tells clients what is sent to them, and returns what must be
// stored and sent. The effects are valid until the next Step, except Disk, which then belongs
// to the caller.
func (r *Replica) Step(now Now, batch []Event, clients Clients) *Effects {
	invariant.Check(now.MonoMs >= r.now.MonoMs, "replica: time runs backwards")
	beforeMs := r.now.MonoMs
	r.now, r.clients = now, clients
	r.effects.reset()
	r.steps++
	r.longAnswers = 0
	if r.steps == 1 && !r.ensemble.standalone() {
		if c := r.ensemble.takeCommitted(); c != nil {
			r.activate(c)
		}
		r.look()
	}
	if len(batch) > 0 && batch[0].Kind == EventPaused {
		r.pause.begin(beforeMs, now.MonoMs, r.opts.Zab.TickMs)
		batch = batch[1:]
	}
	r.peer.Lag(r.pause.lagMs(now))
	r.takePermission()
	for i := range batch {
		if i%tree.FetchMax == 0 {
			r.fetchRequests(batch[i:])
		}
		handlers[batch[i].Kind](r, &batch[i])
	}
	r.expire()
	r.tellWhileBehind()
	r.electionTick()
	r.stepPeer()
	r.watches.Sweep()
	r.clients = nil
	return &r.effects
}

// touchedMs returns the time to record for a session that sends a heartbeat now.
func (r *Replica) touchedMs() int64 { return r.now.MonoMs + TouchIntervalMs(r.opts.Zab.TickMs) }

// handlers maps each kind of event to its handler.
var handlers = [eventKinds]func(*Replica, *Event){
	EventConnect:      (*Replica).onConnect,
	EventRequest:      (*Replica).onRequest,
	EventAuth:         (*Replica).onAuth,
	EventIdentities:   (*Replica).onIdentities,
	EventTouch:        (*Replica).onTouch,
	EventDisconnect:   (*Replica).onDisconnect,
	EventTick:         (*Replica).onTick,
	EventPaused:       func(*Replica, *Event) {}, // Step has handled it already
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
