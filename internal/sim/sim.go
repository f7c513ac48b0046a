// Package sim runs whole ensembles in one thread, on virtual time, from one seed: servers
// with their trees, sessions, watches and disks, the bytes between them, clients with the
// state machine of the real client, and everything that may go wrong.
//
// It takes a Plan, drawn from a seed or made by hand, and returns a Report: what was done,
// and the first promise that was broken, if any. During the run, package check judges every
// record that a server logs, every tree that it shows and every reply that a client gets.
//
//	plan.go     what a run is: drawn from the seed, made smaller by shrink.go
//	fault.go    what can go wrong; trouble.go does it, reconfig.go changes the ensemble
//	agenda.go   virtual time
//	stream.go   connections: bytes in order that delay, stall and break
//	process.go  a server: replica, clock, inbox; disk.go its disk, link.go and
//	            votes.go its messages to other servers, port.go those to clients
//	client.go   a client's shell; workload.go what it asks for
//	observe.go  reports to the checkers; coverage.go counts what a run has met
//	converge.go  the end: everything heals, and must come to rest
//	mutant.go   known bugs, put back around a server; masters.go: of observer masters
//
// What always holds: the same plan gives the same trace, on every system. The package
// starts no goroutine, reads no clock, and nothing depends on the order of a map.
//
// It covers neither the shells of the server (goroutines, sockets, flow control) nor those
// of the client; tests with real processes do.
package sim

import (
	"errors"
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Report is the result of a run.
type Report struct {
	Plan  Plan
	Err   error  // the first thing that was wrong, nil if nothing was
	AtMs  int64  // when the run ended
	Trace uint64 // hash of the trace: equal for equal runs
	Lines int    // of the trace
	Tally Tally
	Met   *Coverage
}

// Tally counts what a run has done, to show that it tests something.
type Tally struct {
	Events, Steps                      int
	Behind                             int // steps that have left events waiting
	Acked, Refused, Unknown, Reads     int
	Watches, Sessions, Expired         int
	Elections, Leaders, Faults         int
	Crashes, Reloads, Snapshots        int
	Diff, Trunc, Snap, Committed, Lost int
	Slow                               int // links that were closed because their receiver does not read
	Asked, Reconfigs                   int // changes of the ensemble: requested, and in force
	BadWrites, Short                   int // bad writes, and logs that were found to lack their end
	ReadErrors, Beyond                 int
	Spoilt                             int // trees that were damaged in memory
	Locals, Upgraded, Partitioned      int // sessions of one server, those that all servers know since, connections that may only read
}

// add adds the counts of another run.
func (t *Tally) add(o *Tally) {
	for i, n := range o.numbers() {
		*t.numbers()[i] += *n
	}
}

// numbers returns the counts in the order of tallyNames.
func (t *Tally) numbers() []*int {
	return []*int{
		&t.Events, &t.Steps, &t.Behind, &t.Acked, &t.Refused, &t.Unknown, &t.Reads, &t.Watches, &t.Sessions, &t.Expired, &t.Elections,
		&t.Leaders, &t.Faults, &t.Crashes, &t.Reloads, &t.Snapshots, &t.Diff, &t.Trunc, &t.Snap, &t.Committed, &t.Lost, &t.Asked, &t.Reconfigs,
		&t.Slow, &t.BadWrites, &t.Short, &t.ReadErrors, &t.Beyond, &t.Spoilt, &t.Locals, &t.Upgraded, &t.Partitioned,
	}
}

// Sum returns the sum of the tallies of runs.
func Sum(all ...Tally) Tally {
	var sum Tally
	for i := range all {
		sum.add(&all[i])
	}
	return sum
}

// world is an ensemble, its clients, and everything around them.
type world struct {
	agenda
	plan     Plan
	tracer   *tracer
	config   *ensemble.Config
	servers  []*process
	clients  []*client
	blocked  map[[2]node]int // how many faults block messages from one to the other
	pairs    map[[2]node]*pair
	watcher  *observer
	trouble  trouble
	oracle   oracle
	tally    Tally
	coverage *Coverage
	err      error
	moments  int64
	newest   int64 // version of the newest configuration in force
	lateMs   int64 // until then a server may be considered silent because packets are late
	wild     bool  // the first phase, with faults and requests
	still    bool  // the last phase: no requests, and all clients live
	usedUp   bool  // a leader has stepped down because its epoch has no number left
}

// Run carries out a plan. If tell is not nil, it is called with each note of the trace, in
// order. An error of tell is that of the run, if there is no other.
func Run(plan Plan, tell func(*Note) error) Report {
	w := newWorld(plan, tell)
	w.wild = true
	w.plant()
	w.until(plan.WildMs, nil)
	w.wild = false
	w.converge()
	if w.err == nil && w.tracer.err != nil {
		w.err = fmt.Errorf("write the trace: %w", w.tracer.err)
	}
	if errors.Is(w.err, errBeyond) {
		w.err = nil
	}
	shown, _ := w.watcher.order.Shown()
	w.tally.Committed = shown
	return Report{
		Plan: plan, Err: w.err, AtMs: w.nowMs, Trace: w.tracer.hash, Lines: w.tracer.lines, Tally: w.tally, Met: w.coverage,
	}
}

func newWorld(plan Plan, tell func(*Note) error) *world {
	w := &world{plan: plan, tracer: newTracer(tell), blocked: map[[2]node]int{}, pairs: map[[2]node]*pair{}, coverage: &Coverage{}}
	w.trouble = trouble{w: w, damaged: map[*process]int{}}
	w.oracle = oracle{w: w, holder: 1}
	w.config = plan.config()
	w.watcher = newObserver(w)
	for i := range plan.servers() {
		w.servers = append(w.servers, newProcess(w, i+1))
	}
	for i := range plan.Clients {
		w.clients = append(w.clients, newClient(w, i+1, 0))
	}
	for _, p := range w.servers {
		p.start()
	}
	for _, c := range w.clients {
		c.start()
	}
	w.oracle.moves()
	return w
}

// until lets everything happen up to a time, or until something is wrong or done returns
// true.
func (w *world) until(untilMs int64, done func() bool) {
	for w.err == nil {
		what := w.next(untilMs)
		if what == nil {
			return
		}
		w.tally.Events++
		w.guarded(what)
		if done != nil && done() {
			return
		}
	}
}

// guarded turns a broken invariant into the run's error: a machine that stops itself has
// found a bug.
func (w *world) guarded(what func()) {
	defer func() {
		if r := recover(); r != nil {
			if w.tracer.tell != nil && !strings.HasPrefix(fmt.Sprint(r), "invariant broken") {
				panic(r) // the trace must show where it happened
			}
			w.fail(fmt.Errorf("stopped itself: %v", r))
		}
	}()
	what()
}

// fail records the first thing that is wrong.
func (w *world) fail(err error) {
	if err == nil || w.err != nil {
		return
	}
	if w.trouble.excused(err) {
		w.beyond()
		return
	}
	w.err = err
	w.note(0, "WRONG", 0, 0, err.Error())
}

// beyond ends a run in which nothing more is promised.
func (w *world) beyond() {
	if w.err == nil {
		w.tally.Beyond++
		w.err = errBeyond
		w.note(0, "BEYOND", 0, 0, "")
	}
}

func (w *world) note(who node, what string, whom node, zxid zk.Zxid, detail string) {
	w.tracer.note(w.nowMs, who, what, whom, zxid, detail)
}

// moment returns a number that is higher than all earlier ones.
func (w *world) moment() int64 {
	w.moments++
	return w.moments
}

// up reports whether a machine has a process that answers.
func (w *world) up(n node) bool {
	if n >= firstClient {
		return true
	}
	return w.byID(n.id()).up
}

// server returns the server at a place, from 1 on.
func (w *world) server(place int) *process { return w.servers[place-1] }

// byID returns the server with an id; nil if there is none.
func (w *world) byID(id quorum.ID) *process {
	at := int(id - w.plan.idOf(1))
	if at < 0 || at >= len(w.servers) {
		return nil
	}
	return w.servers[at]
}

// leader returns the server that leads in the newest epoch; nil if there is none.
func (w *world) leader() *process {
	var best *process
	for _, p := range w.servers {
		if p.leads() && (best == nil || p.replica.Epoch() > best.replica.Epoch()) {
			best = p
		}
	}
	return best
}

// block stops messages from one to another; unblock undoes that.
func (w *world) block(from, to node) { w.blocked[[2]node{from, to}]++ }

func (w *world) unblock(from, to node) {
	key := [2]node{from, to}
	if w.blocked[key]--; w.blocked[key] <= 0 {
		delete(w.blocked, key)
	}
	w.flow()
}

// open reports whether messages can go from one to another.
func (w *world) open(from, to node) bool { return w.blocked[[2]node{from, to}] == 0 }

// reachable reports whether a connection can be made.
func (w *world) reachable(a, b node) bool { return w.open(a, b) && w.open(b, a) }

// flow lets messages that were stopped move again.
func (w *world) flow() {
	for _, p := range w.servers {
		p.flow()
	}
	for _, c := range w.clients {
		if c.stream != nil {
			c.stream.move()
		}
	}
}
