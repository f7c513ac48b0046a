package peers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/raft"
	"github.com/conclave-project/conclave/algo/registry"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/names"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

// ErrClosed is returned after Close. It matches election.ErrClosed and
// election.ErrPermanent: no candidate of the member tries again.
var ErrClosed = election.Permanent(fmt.Errorf("peers: this member is closed (%w)", election.ErrClosed))

// inboxMax bounds the calls and frames that wait for the loop. Further callers and
// connections are blocked until there is space.
const inboxMax = 1024

// driftPercent is what the machines allow for clocks that differ in rate: the lease of a
// grant is shorter by that share. The Elector has its own margin in addition.
const driftPercent = 5

// Backend is one member: its part in all elections, and its connections to all other
// members. The loop owns all fields except those that are marked.
type Backend struct {
	options   Options
	algorithm registry.Algorithm
	clock     clock.Clock
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	leaseMs   int64
	formerMs  int64 // the longest lease of a promise from before the start that may still last
	store     *store
	listener  net.Listener

	inbox chan func()     // for the loop
	lines chan string     // for Log
	life  context.Context // ends with Close or when the loop fails
	end   context.CancelFunc
	done  chan struct{} // closed when the loop has ended
	err   error         // why it has; set before done is closed
	// shutDown is closed when the connections have also ended and the directory is
	// unlocked.
	shutDown chan struct{}
	workers  sync.WaitGroup // of the connections
	kicks    map[algo.ID]chan struct{}
	cut      atomic.Bool // for tests: no connections

	head     *state // the state without the elections
	disk     disk
	beganMs  int64
	entry    *raft.Newcomer     // a member without memory; nil once it takes part
	founders map[algo.ID]string // if the group was founded with this directory; nil if not known
	lost     string             // the member that says that this directory was replaced; empty for none
	joined   bool               // all members are connected or do not answer
	tried    map[algo.ID]bool
	links    map[algo.ID]*link
	broken   map[algo.ID]string // why there is no link
	contests map[string]*contest
	idleMax  int // how many idle elections are kept
	sweepAt  int // number of contests at which to look for idle ones
	sweptMs  int64
	serial   uint64 // numbers the versions of queues
	alarms   alarms
	touched  []*contest // to be updated before the loop waits
	asked    map[string]chan string
}

// New starts the member. It returns when it listens and has read its state; the connections
// are made later.
func New(options Options) (*Backend, error) {
	b, err := start(options, thisMachine(osfs.New()))
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	return b, nil
}

// world is what a member runs on.
type world struct {
	disk  vfs.FS
	clock clock.Clock
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
}

func thisMachine(disk vfs.FS) world { return world{disk, clock.System(), names.System().DialContext} }

func start(options Options, on world) (*Backend, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	algorithm, err := registry.Get(options.Algorithm)
	if err != nil {
		return nil, err
	}
	leaseMs := options.Lease.Milliseconds()
	store, state, err := openStore(on.disk, options.Dir, options.ID, options.ids(), leaseMs, uint64(options.After))
	if err != nil {
		return nil, err
	}
	listener := options.Listener
	if listener == nil {
		if listener, err = net.Listen("tcp", options.addr(options.ID)); err != nil {
			return nil, errors.Join(fmt.Errorf("listen for the other members: %w", err), store.close())
		}
	}
	b := &Backend{options: options, algorithm: algorithm, clock: on.clock, dial: on.dial,
		leaseMs: leaseMs, formerMs: state.LeaseMs, store: store, listener: listener,
		inbox: make(chan func(), inboxMax), done: make(chan struct{}), shutDown: make(chan struct{}),
		kicks: make(map[algo.ID]chan struct{}),
		head:  state, links: make(map[algo.ID]*link), broken: make(map[algo.ID]string), idleMax: idleMax,
		tried: make(map[algo.ID]bool), joined: len(options.Members) == 1,
		lines: make(chan string, linesMax), contests: make(map[string]*contest), asked: make(map[string]chan string)}
	b.beganMs = b.nowMs()
	if len(options.Members) == 1 || !algorithm.Exclusive {
		b.head.Founded = true
	}
	b.entry = b.newcomer()
	b.life, b.end = context.WithCancel(context.Background())
	for name, known := range state.Elections {
		c := b.contest(name)
		c.memory, c.stored = *known, true
		c.machine = c.begin()
	}
	state.Elections = nil
	for _, m := range options.Members {
		if m.ID != options.ID {
			b.broken[m.ID] = "not connected yet"
			b.kicks[m.ID] = make(chan struct{}, 1)
		}
	}
	for _, m := range options.Members {
		if m.ID != options.ID {
			b.workers.Go(func() { b.keepLink(m) })
		}
	}
	b.disk.work = make(chan order, 1)
	b.workers.Go(b.writeState)
	b.workers.Go(b.accept)
	b.workers.Go(func() {
		b.sleep(options.Lease / 2)
		b.post(b.join)
	})
	if b.formerMs > b.leaseMs {
		b.workers.Go(func() {
			b.sleep(time.Duration(b.formerMs) * time.Millisecond)
			b.post(b.forgetLease)
		})
	}
	go b.tellLog() // nothing waits for it: Log may never return
	go b.loop()
	return b, nil
}

// forgetLease records that no promise from before the start, with a longer lease, lasts any
// more (peers-P9).
func (b *Backend) forgetLease() {
	b.alter(func(head *state) { head.LeaseMs = b.leaseMs })
}

// linesMax is how many lines may wait for Log.
const linesMax = 64

// say queues a line for Log. If Log blocks and the queue is full, the line is dropped: a
// log must not delay elections.
func (b *Backend) say(format string, args ...any) {
	select {
	case b.lines <- fmt.Sprintf(format, args...):
	default:
	}
}

func (b *Backend) tellLog() {
	for {
		select {
		case line := <-b.lines:
			b.options.Log(line)
		case <-b.life.Done():
			return
		}
	}
}

// Close steps down in elections in which nobody has a grant, tells the others, and ends the
// member. Grants that were not released are lost; nobody else leads before their leases are over.
func (b *Backend) Close() error {
	b.end()
	<-b.shutDown
	if errors.Is(b.err, ErrClosed) {
		return nil
	}
	return b.err
}

// Traits says what this backend promises.
func (b *Backend) Traits() election.Traits {
	t := election.Traits{Name: "peers", Exclusive: b.algorithm.Exclusive, Expires: true, Waiters: true,
		LeaseMin: LeaseMin, Guarantees: guarantees}
	if !b.algorithm.Exclusive {
		t.Name = "peers/" + b.algorithm.Name
		t.Guarantees = unsafeGuarantees
	}
	return t
}

var guarantees = election.Guarantees{
	Failover: "no store; a minority of members may die at any time; with half of them gone nobody leads",
	Clocks:   "rates only: those of two members differ by at most 5 %",
	Token: "the Raft term, on the disks of a quorum; goes back only if a majority lose their directories and " +
		"a new group is founded without After",
	Renewal: "none of its own: the heartbeats of all elections go together, 2(n-1) messages every tenth of the " +
		"lease",
	Waiting: "nothing while the leader sends heartbeats",
	Notice:  "watch",
}

var unsafeGuarantees = election.Guarantees{
	Failover: "no store; under a partition each part has a leader",
	Clocks:   "none",
	Token:    "grows on each member, fences nothing",
	Renewal:  "none of its own",
	Waiting:  "the heartbeats of the algorithm",
	Notice:   "watch",
}

func (b *Backend) nowMs() int64 { return b.clock.Now().Millis() }

// post passes a function to the loop; it returns false if the loop has ended.
func (b *Backend) post(f func()) bool {
	select {
	case b.inbox <- f:
		return true
	case <-b.done:
		return false
	}
}

// call runs a function in the loop and waits for its end.
func (b *Backend) call(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	one := func() {
		f()
		close(ran)
	}
	select {
	case b.inbox <- one:
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-ran:
		return nil
	case <-b.done:
		return b.err
	}
}

// loop owns the member. It handles everything that has arrived before it writes, so that
// the results also leave together.
func (b *Backend) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for b.err == nil {
		b.arm(timer)
		select {
		case f := <-b.inbox:
			f()
			b.drain()
		case <-timer.C:
		case <-b.life.Done():
			b.stepDown()
			b.err = ErrClosed
		}
		b.tick()
		b.flush()
	}
	b.shut()
}

// drain runs the functions that have arrived in the meantime, at most as many as can wait.
func (b *Backend) drain() {
	for range inboxMax {
		select {
		case f := <-b.inbox:
			f()
		default:
			return
		}
	}
}

// arm sets the timer to when the next machine wants to be woken, at most a fifth of a lease
// from now: Go's timers stop while the computer sleeps, but the lease does not, and each
// step reads the clock that goes on.
func (b *Backend) arm(timer *time.Timer) {
	wait := time.Hour
	if at, ok := b.alarms.next(); ok {
		wait = min(clock.FromMillis(at).Sub(b.clock.Now()), b.options.Lease/5)
	}
	if b.entry != nil {
		wait = min(wait, b.options.Lease/5)
	}
	timer.Reset(max(0, wait))
}

// tick wakes the machines whose time has come.
func (b *Backend) tick() {
	nowMs := b.nowMs()
	for _, c := range b.alarms.due(nowMs) {
		c.step(algo.Tick{})
		c.lapse()
	}
	b.askOthers()
}

// flush carries out what the steps have left to do: grants, messages to other members, and
// writes to the disk.
func (b *Backend) flush() {
	for done := 0; done < len(b.touched); done++ { // an update may touch others
		b.touched[done].updateCandidacy()
	}
	touched := b.touched
	b.touched = nil
	for _, c := range touched {
		c.touched = false
		c.grant()
		c.tell()
	}
	b.sweep()
	for _, l := range b.links {
		l.flush()
	}
	b.giveState()
}

// stepDown gives up all leaderships, so that others need not wait for a lease to end.
func (b *Backend) stepDown() {
	for _, c := range b.contests {
		c.abandon("stopped")
	}
}

// shut closes what the loop owns and wakes all waiting callers.
func (b *Backend) shut() {
	b.end()
	_ = b.listener.Close()
	for _, l := range b.links {
		l.finish()
	}
	for _, c := range b.contests {
		c.lost("lost")
		c.wake()
	}
	close(b.disk.work)
	close(b.done)
	b.workers.Wait()
	_ = b.store.close()
	close(b.shutDown)
}

// contest returns this member's part in an election.
func (b *Backend) contest(name string) *contest {
	if c := b.contests[name]; c != nil {
		return c
	}
	c := &contest{b: b, name: name, others: make(map[algo.ID]*said), seen: make(map[string]uint64), alarm: -1,
		metadata: make(map[algo.ID]map[string]string),
		ownSaw:   "{}", memory: algo.State{Term: b.head.After, Floor: b.head.Floor}}
	c.machine, c.termMs = c.begin(), b.beganMs
	c.use()
	b.contests[name] = c
	return c
}

// begin returns a new machine for an election, as after a start: whatever this process has
// not done in the election, no other process has done under its id since.
func (c *contest) begin() algo.Machine {
	b := c.b
	return b.algorithm.New(b.beganMs, registry.Options{ID: b.options.ID, Members: b.options.ids(), State: c.memory,
		LeaseMs: b.leaseMs, FormerLeaseMs: b.formerMs, DriftPercent: driftPercent, Seed: rand.Uint64()})
}

// space returns an error if this member cannot take part in another election.
func (b *Backend) space(name string) error {
	if len(b.contests) >= electionsMax && b.contests[name] == nil {
		return fmt.Errorf("peers: %d elections are held at a time, and that is the limit", electionsMax)
	}
	return nil
}

// receive handles the items of a frame.
func (b *Backend) receive(l *link, items []item) {
	if b.links[l.peer] != l {
		return // another link has replaced this one
	}
	for _, one := range items {
		if one.kind == itemAsk {
			b.onQuestion(l, one.question)
			continue
		}
		if err := b.space(one.election); err != nil {
			b.say("%s speaks of the election %q: %v", l.peer, one.election, err)
			continue
		}
		c := b.contest(one.election)
		switch one.kind {
		case itemMessage:
			if b.head.Founded {
				c.step(algo.Received{From: l.peer, Message: one.message})
			}
		case itemSaid:
			c.receive(l.peer, one.said)
		case itemNote:
			c.onNote(l.peer, one.note)
		}
	}
}
