// Package zabtest runs an ensemble of zab peers in one thread: servers with disks that lose
// what was not synced, FIFO links that delay, stall and break, an election that may be wrong,
// and time that only this package advances. All chance comes from one seed, so that a run can
// be repeated exactly.
//
// While it runs, check.go compares what every serving server shows with one order of
// transactions for the whole ensemble. The first difference ends the run with an error. Mutants
// (mutant.go) put known bugs around the peers: a harness that does not find them proves
// nothing.
//
// It does not model the content of transactions, bytes, or clocks that drift.
package zabtest

import (
	"container/heap"
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// Options say what to run.
type Options struct {
	Participants int
	Observers    int  // their ids follow those of the participants
	Masters      bool // followers serve the observers
	Seed         uint64
	Calm         bool   // every delay is 1 ms and nothing happens by chance
	Mutant       Mutant // a known bug, put back
	HistoryMax   int
	CounterMax   uint32
	KeepTrace    bool
}

// oneByOne draws which servers have no cumulative links: one in four.
func (o *Options) oneByOne(id quorum.ID) bool {
	return !o.Calm && o.Seed*0x9e3779b97f4a7c15>>(8+2*uint64(id))&3 == 0
}

// Times of the servers, in milliseconds.
const (
	tickMs = 200
	initMs = 1500
	syncMs = 600
)

// World is an ensemble and everything around it.
type World struct {
	opts    Options
	chance  chance
	nowMs   int64
	seq     uint64
	todo    agenda
	servers []*server
	links   uint64
	blocked map[[2]quorum.ID]bool // from, to
	proxies uint64                // number of payloads made
	order   order
	wrong   bool // the election may choose anybody
	err     error

	trace strings.Builder
	hash  uint64
	tally Tally
}

// Tally counts what a run has done, by which a test can check that the run tested something.
type Tally struct {
	Committed, Elections, Crashes, Serves, Syncs int
	Diff, Trunc, Snap, LogReads, Reloads         int
	Revalidated, Behind                          int // answers that arrived; observers that a master served
}

// New returns an ensemble of empty servers, all of them looking.
func New(opts Options) *World {
	w := &World{opts: opts, chance: chance(opts.Seed*2 + 1), blocked: map[[2]quorum.ID]bool{}, hash: 14695981039346656037}
	w.order.epochs = map[uint32]quorum.ID{}
	for i := range opts.Participants + opts.Observers {
		w.servers = append(w.servers, newServer(w, quorum.ID(i+1), i >= opts.Participants))
	}
	for _, s := range w.servers {
		s.start()
	}
	return w
}

// config is the ensemble's configuration.
func (w *World) config() zab.Config {
	var ids []quorum.ID
	for i := range w.opts.Participants {
		ids = append(ids, quorum.ID(i+1))
	}
	return zab.Config{Quorum: w.opts.Mutant.quorum(quorum.NewMajority(ids...), w)}
}

func (w *World) server(id quorum.ID) *server { return w.servers[id-1] }

// Err is the first fault that was found, or nil.
func (w *World) Err() error { return w.err }

// Tally returns what the run has done.
func (w *World) Tally() Tally { return w.tally }

// Trace returns the lines of the run, if they are kept, and a hash that is the same for two
// equal runs.
func (w *World) Trace() (string, uint64) { return w.trace.String(), w.hash }

// fail notes the first fault.
func (w *World) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %d ms: "+format, append([]any{w.nowMs}, args...)...)
		w.note("WRONG: %v", w.err)
	}
}

// note adds a line to the trace.
func (w *World) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	for _, b := range []byte(line) {
		w.hash = (w.hash ^ uint64(b)) * 1099511628211
	}
	if w.opts.KeepTrace {
		if !w.opts.Calm {
			fmt.Fprintf(&w.trace, "%6d ", w.nowMs)
		}
		w.trace.WriteString(line + "\n")
	}
}

// delay is how long something takes.
func (w *World) delay(most int) int64 {
	if w.opts.Calm {
		return 1
	}
	return 1 + int64(w.chance.below(most))
}

// after makes something happen later. Things at the same time happen in the order in which they
// were planned.
func (w *World) after(ms int64, what func()) {
	w.seq++
	heap.Push(&w.todo, item{w.nowMs + ms, w.seq, what})
}

// Run lets everything happen up to a time. It stops early at a fault.
func (w *World) Run(untilMs int64) {
	for len(w.todo) > 0 && w.todo[0].atMs <= untilMs && w.err == nil {
		next := heap.Pop(&w.todo).(item)
		w.nowMs = next.atMs
		w.guarded(next.what)
	}
	w.nowMs = max(w.nowMs, untilMs)
}

// guarded turns a broken invariant into the run's error: a peer that stops itself has found a
// fault.
func (w *World) guarded(what func()) {
	defer func() {
		if r := recover(); r != nil {
			w.fail("%v", r)
		}
	}()
	what()
}

// item is something that will happen.
type item struct {
	atMs int64
	seq  uint64
	what func()
}

// agenda is a heap of what will happen.
type agenda []item

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].atMs < a[j].atMs || a[i].atMs == a[j].atMs && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *agenda) Push(x any) { *a = append(*a, x.(item)) }

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// chance is a small generator (splitmix64) with the same numbers on every system.
type chance uint64

func (c *chance) next() uint64 {
	*c += 0x9e3779b97f4a7c15
	z := uint64(*c)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1.
func (c *chance) below(n int) int { return int(c.next() % uint64(n)) }

// oneIn is true once in n times.
func (c *chance) oneIn(n int) bool { return c.below(n) == 0 }
