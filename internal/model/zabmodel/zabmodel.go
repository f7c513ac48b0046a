// Package zabmodel explores Zab: it runs package zab's peers completely, with crashes
// between any two disk operations, FIFO links that break, an election that may be wrong
// (Zab is safe whatever its result), transactions and a reconfig.
//
// What must hold: what any serving server shows is one sequence of transactions (total
// order, agreement, integrity), in the order of epochs and counters (local and global
// primary order); a new leader begins with everything that was shown before (primary
// integrity); an epoch has one leader; everything that was shown is at all times on the
// disks of a quorum; nothing is acknowledged, and no epoch promised, before it is on disk.
// And from every state, without further faults and with correct elections, all servers come
// to serve the same tree. The first are the properties of the Zab paper; the ones about
// disks and acknowledgements are additional checks that Remix (EuroSys 2025) applies to
// ZooKeeper.
//
// A disk works at once, unless a scope allows a slow one: while a server has something to
// write, nothing else happens except its crash. Crashes still occur between any two
// operations.
package zabmodel

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/conclave-project/conclave/internal/model"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Scope defines how much is explored. Counts apply to a whole run.
type Scope struct {
	Text      string
	Servers   int
	Starts    []Start
	Elections int // outcomes of elections: a leader, and the servers that accept it
	Wrong     int // outcomes that name a leader that does not know of it
	Txns      int
	Crashes   int // each may be followed by a restart
	Resets    int // connections that break
	Timeouts  int // servers that stall for longer than all limits
	Slow      int // disks that are slow for a while
	Old, New  []quorum.ID
	Reconfigs int  // from Old to New
	OneByOne  bool // no link is cumulative
	Mutant    Mutant
}

// Start is the initial content of the disks: for each server how many transactions of epoch
// 1 it has; the first Shown of them were acknowledged.
type Start struct {
	Logs   []int
	Shown  int
	Change int   // the number of the transaction that is the reconfig; 0 for none
	Dead   []int // the servers that are down
	Saved  []int // the servers whose log is in a snapshot
}

// Times of the servers, in milliseconds. Time passes only in jumps of jumpMs.
const (
	tickMs = 200
	initMs = 1500
	syncMs = 600
	jumpMs = 10_000
)

// The counters that follow the parts and queues.
const (
	elections = iota
	wrongs
	txns
	crashes
	resets
	timeouts
	slows
	reconfigs
	cursor
	numbers
)

// layout computes slots: servers, the order that was shown, connections, counters. A
// connection goes from a learner to a leader. An old one may exist beside the new one;
// their generations are 0 and 1.
type layout struct{ n int }

func (l layout) order() int { return l.n }
func (l layout) queue(learner, leader, gen, way int) int {
	return l.n + 1 + ((learner*l.n+leader)*2+gen)*2 + way
}
func (l layout) number(n int) int { return l.n + 1 + 4*l.n*l.n + n }

// The directions of a connection.
const (
	up   = 0 // to the leader
	down = 1
)

type system struct {
	layout
	scope Scope
}

// New returns the model of a scope.
func New(scope Scope) *model.Model {
	s := &system{layout{scope.Servers}, scope}
	if scope.Old == nil {
		for i := range s.n {
			s.scope.Old = append(s.scope.Old, quorum.ID(i+1))
		}
	}
	slots := make([]model.Slot, s.number(numbers))
	for slot := range slots {
		switch {
		case slot >= s.number(0):
			slots[slot] = model.Number
		case slot > s.order():
			slots[slot] = model.Queue
		}
	}
	m := &model.Model{Name: "zab", Scope: scope.Text, Shape: shape(), Slots: slots, Starts: len(scope.Starts), Start: s.start,
		Step: s.step, Moves: s.moves, Do: s.do, Check: s.check, Rest: s.rest, Converge: s.converge, ConvergeMax: 2000}
	if scope.New == nil {
		m.Shape.Orders = model.Orders(s.n)
		m.Symmetries = s.symmetries(m.Shape.Orders)
	}
	return m
}

func shape() *model.Shape {
	id := func(v reflect.Value) (int, uint64) { return int(v.Int()) - 1, 0 }
	link := func(v reflect.Value) (int, uint64) { return int(v.Uint()%10) - 1, v.Uint() / 10 }
	return &model.Shape{
		Scratch: []string{"zab.Peer.effects", "zab.leader.scratch"},
		Moments: []string{"zabmodel.server.NowMs", "zab.Peer.nowMs", "zab.Peer.tickedMs", "zab.leader.sinceMs", "zab.leader.checkMs", "zab.leader.pingMs",
			"zab.link.receivedMs", "zab.link.tookMs", "zab.link.waitsMs", "zab.learner.receivedMs", "zab.view.sentMs", "zab.Peer.soughtMs", "zab.master.pingMs"},
		Spans:  []string{"zab.Options.*", "zab.Peer.lagMs"},
		PastMs: 2 * jumpMs,
		Shared: []reflect.Type{reflect.TypeFor[quorum.Set](), reflect.TypeFor[*zab.Message](), reflect.TypeFor[[]byte]()},
		Names: map[reflect.Type]func(reflect.Value) (int, uint64){
			reflect.TypeFor[quorum.ID](): id, reflect.TypeFor[zab.LinkID](): link,
		},
	}
}

// symmetries returns the permutation of slots for each permutation of servers.
func (s *system) symmetries(orders [][]int) [][]int {
	var all [][]int
	for _, order := range orders {
		to := make([]int, s.number(numbers))
		for slot := range to {
			to[slot] = slot
		}
		for i := range s.n {
			to[i] = order[i]
			for j := range s.n {
				for k := range 4 {
					to[s.queue(i, j, k/2, k%2)] = s.queue(order[i], order[j], k/2, k%2)
				}
			}
		}
		all = append(all, to)
	}
	return all
}

func (s *system) start(w *model.World, n int) {
	start := s.scope.Starts[n]
	shown := &order{Leaders: map[uint32]quorum.ID{}}
	for i := range s.n {
		d := disk{}
		for k := range start.Logs[i] {
			r := zab.Record{Zxid: zk.MakeZxid(1, uint32(k+1)), Payload: []byte{byte(200 + k)}}
			if k+1 == start.Change {
				r.Payload = change
			}
			d.Log = append(d.Log, r)
			if k < start.Shown && k == len(shown.Records) {
				shown.Records = append(shown.Records, r)
			}
		}
		d.Written = len(d.Log)
		if slices.Max(start.Logs) > 0 {
			d.Accepted, d.Current = 1, 1
		}
		if slices.Contains(start.Saved, i+1) {
			d = disk{Accepted: 1, Current: 1, Snap: d.Log, Base: d.last()}
		}
		p := &server{ID: quorum.ID(i + 1), NowMs: 1_000_000, Disk: d}
		if !slices.Contains(start.Dead, i+1) {
			s.boot(p)
		}
		w.Put(i, p)
	}
	w.Put(s.order(), shown)
	for number, budget := range map[int]int{elections: s.scope.Elections, wrongs: s.scope.Wrong, txns: s.scope.Txns, crashes: s.scope.Crashes,
		resets: s.scope.Resets, timeouts: s.scope.Timeouts, slows: s.scope.Slow, reconfigs: s.scope.Reconfigs} {
		w.SetNumber(s.number(number), budget)
	}
}

// change is the payload of the reconfig's transaction.
var change = []byte("reconfig")

// config returns the configuration before or after the reconfig.
func (s *system) config(version zk.Zxid) *zab.Config {
	if version == 0 {
		return &zab.Config{Quorum: s.scope.Mutant.quorum(quorum.NewMajority(s.scope.Old...))}
	}
	return &zab.Config{Version: int64(version), Quorum: s.scope.Mutant.quorum(quorum.NewMajority(s.scope.New...))}
}

// shown is the tree that a server shows to clients: an event for order.
type shown struct {
	Server quorum.ID
	Epoch  uint32 // the epoch in which it begins to serve; 0 if it serves already
	Leads  bool
	Tree   []zab.Record
}

// order is the sequence of transactions that was shown, which only grows. It is a part that
// panics if a server shows something that does not fit.
type order struct {
	Records []zab.Record
	Leaders map[uint32]quorum.ID // by epoch
}

// see records what a server shows.
func (o *order) see(e shown) {
	if e.Leads && e.Epoch != 0 {
		o.leads(e)
	}
	for at, r := range e.Tree {
		if at < len(o.Records) {
			if want := o.Records[at]; r.Zxid != want.Zxid || string(r.Payload) != string(want.Payload) {
				panic(fmt.Sprintf("AGREEMENT: server %d shows %s %v at place %d, where %s %v was shown", e.Server,
					zab.FormatZxid(r.Zxid), r.Payload, at, zab.FormatZxid(want.Zxid), want.Payload))
			}
			continue
		}
		if at > 0 {
			before := o.Records[at-1].Zxid
			if next := before + 1; r.Zxid != next && (r.Zxid.Epoch() <= before.Epoch() || r.Zxid.Counter() != 1) {
				panic(fmt.Sprintf("PRIMARY ORDER: %s is shown after %s", zab.FormatZxid(r.Zxid), zab.FormatZxid(before)))
			}
		}
		o.Records = append(o.Records, r)
	}
}

// leads checks a leader that begins to serve.
func (o *order) leads(e shown) {
	if other, known := o.Leaders[e.Epoch]; known && other != e.Server {
		panic(fmt.Sprintf("LEADERSHIP: servers %d and %d lead epoch %d", other, e.Server, e.Epoch))
	}
	o.Leaders[e.Epoch] = e.Server
	older := len(o.Records)
	for older > 0 && o.Records[older-1].Zxid.Epoch() >= e.Epoch {
		older--
	}
	if len(e.Tree) < older {
		panic(fmt.Sprintf("PRIMARY INTEGRITY: leader %d of epoch %d has %d transactions, %d were shown in older epochs",
			e.Server, e.Epoch, len(e.Tree), older))
	}
}

// check checks a state: everything that was shown is on the disks of a quorum.
func (s *system) check(w *model.World) {
	records := w.Part(s.order()).(*order).Records
	set := quorum.NewMajority(s.scope.Old...)
	if slices.ContainsFunc(records, func(r zab.Record) bool { return string(r.Payload) == string(change) }) {
		set = quorum.NewMajority(s.scope.New...)
	}
	for at, r := range records {
		var have quorum.IDs
		for i := range s.n {
			p := w.Part(i).(*server)
			if p.Disk.holds(at, r) {
				have.Add(p.ID)
			}
		}
		if !set.Enough(have) {
			w.Fail("DURABILITY: %s was shown and is on the disks of %v", zab.FormatZxid(r.Zxid), have)
		}
	}
}
