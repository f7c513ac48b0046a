// Package replica is one whole server as a machine: what has happened goes in
// as a batch of events, what must be done about it comes out.
//
// A Replica owns the tree, the sessions, the watches and the order of
// transactions. Step takes everything that has arrived since the last one. It
// gives back what must be stored, and tells the Clients, while it works, what
// goes to whom. It starts no goroutine, reads no clock and does no I/O: the
// server package feeds it, and so can a simulator.
//
// A request takes this way. Arrive: its session is looked up and its place
// found (pipeline.go). A write is decided by prep, gets its zxid and is
// proposed (propose.go). When a quorum has it on disk it is committed and
// delivered: applied to the tree, its changes told to watches, its reply given
// (deliver.go). A stand-alone server is a replica whose quorum
// is itself. A read is answered in its place behind the writes of its
// connection (read.go).
//
// What always holds, by number:
//
//	R1  Nothing is told to a client before it is on disk (quorum).
//	R2  Transactions are delivered in zxid order, without a gap.
//	R3  The replies of one connection leave in the order of its requests.
//	R4  A watch event leaves before any reply that shows the change, on every
//	    connection: both happen while readers are kept out of the tree.
//	R5  A session's closing deletes its ephemerals in one transaction.
package replica

import (
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/watch"
	"github.com/conclave-project/conclave/zk"
)

// Options are the settings of a replica. Times are milliseconds.
type Options struct {
	ServerID          uint8 // top byte of new session ids
	TickMs            int64
	SessionMinMs      int32
	SessionMaxMs      int32
	Auth              auth.Rules
	ExtendedTypes     bool
	EnforceQuota      bool
	NoDigest          bool
	ReconfigEnabled   bool
	TxnBytesMax       int   // longest transaction that can be stored; 0 is no limit
	ReapIntervalMs    int64 // between looks for containers and TTL znodes; 0 is never
	ReapPerMinute     int
	ContainerUnusedMs int64 // a container that never had children goes after this; 0 is never
}

// TouchIntervalMs is how far apart the signs of life may be that a shell passes
// on: requests it answers itself need not all be told. Every touch counts for
// so much longer, so that no session expires early (S1).
func TouchIntervalMs(tickMs int64) int64 { return tickMs / 2 }

// Now is the time of a Step. Mono only ever grows and counts everything that
// expires; Wall becomes ctime and mtime.
type Now struct {
	MonoMs int64
	WallMs int64
}

// Replica is a server's state machine. One goroutine owns it; only its Reader
// may be used by others.
type Replica struct {
	opts     Options
	tree     *tree.Tree
	watches  *watch.Table
	sessions *session.Table
	prep     *prep.Prep
	reader   Reader
	conns    map[session.ConnID]*conn

	queue   proposals
	last    zk.Zxid // last one given
	full    bool    // the disk has no room: writes are refused
	reapMs  int64   // when to look for containers next
	orphans []zk.SessionID
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
	pending    zk.Zxid          // its last proposal; its reads wait until this is delivered
	resuming   *session.Session // the session it will be attached to, see resume
}

// Counts are totals since the start.
type Counts struct {
	Proposed, Delivered, Expired, Reaped, DigestMismatches int64
}

// New returns a replica with an empty tree. Restore it from disk, then Start.
func New(opts Options, now Now) *Replica {
	r := &Replica{
		opts:     opts,
		tree:     tree.New(tree.Options{ExtendedTypes: opts.ExtendedTypes}),
		watches:  watch.New(),
		sessions: session.New(max(1, opts.TickMs/2), session.FirstID(opts.ServerID, now.WallMs), now.MonoMs),
		conns:    map[session.ConnID]*conn{},
		now:      now,
	}
	r.reader = Reader{Tree: r.tree, Watches: r.watches, Auth: &r.opts.Auth}
	return r
}

// Tree returns the data tree, to load a snapshot into it and to write one.
func (r *Replica) Tree() *tree.Tree { return r.tree }

// Watches returns the watch table, for reports.
func (r *Replica) Watches() *watch.Table { return r.watches }

// Sessions returns the session table. Only the goroutine that steps the replica
// may use it.
func (r *Replica) Sessions() *session.Table { return r.sessions }

// Reader returns what answers reads; it may be used by many goroutines.
func (r *Replica) Reader() *Reader { return &r.reader }

// Counts returns totals since the start.
func (r *Replica) Counts() Counts { return r.counts }

// Outstanding returns how many proposals are not delivered yet.
func (r *Replica) Outstanding() int { return r.queue.size() }

// Start ends the restoring: from here on Step may be called. The ephemerals of
// sessions that do not exist any more are deleted by transactions at the first
// tick.
func (r *Replica) Start(now Now) {
	r.now = now
	r.last = r.tree.LastZxid()
	r.prep = prep.New(r.tree, prep.Options{
		Auth: &r.opts.Auth, EnforceQuota: r.opts.EnforceQuota, NoDigest: r.opts.NoDigest,
		TxnBytesMax: r.opts.TxnBytesMax,
	})
	r.sessions.RestoreAll(now.MonoMs)
	r.reapMs = now.MonoMs + r.opts.ReapIntervalMs
	r.orphans = r.findOrphans()
}

// Step takes a batch of events, tells clients what goes to them, and returns
// what must be stored. The effects are valid until the next Step.
func (r *Replica) Step(batch []Event, now Now, clients Clients) *Effects {
	invariant.Check(now.MonoMs >= r.now.MonoMs, "replica: time runs backwards")
	r.now, r.clients = now, clients
	r.effects.reset()
	for i := range batch {
		handlers[batch[i].Kind](r, &batch[i])
	}
	r.clients = nil
	return &r.effects
}

// touchedMs is when a session that gives a sign of life now counts as touched.
func (r *Replica) touchedMs() int64 { return r.now.MonoMs + TouchIntervalMs(r.opts.TickMs) }

// handlers says who takes which event.
var handlers = [...]func(*Replica, *Event){
	EventConnect:    (*Replica).onConnect,
	EventRequest:    (*Replica).onRequest,
	EventAuth:       (*Replica).onAuth,
	EventTouch:      (*Replica).onTouch,
	EventDisconnect: (*Replica).onDisconnect,
	EventTick:       (*Replica).onTick,
	EventSynced:     (*Replica).onSynced,
	EventDisk:       (*Replica).onDisk,
}
