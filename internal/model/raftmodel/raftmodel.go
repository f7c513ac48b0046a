// Package raftmodel explores the election of Raft: it runs package algo/raft's
// members completely, with their disks, on clocks whose rates differ by as much
// as the members allow.
//
// What must hold: one member leads in a term (raft-T1); no two consider themselves leaders at the
// same moment, whether or not they stall (raft-T3); the terms of leaderships grow; and from every
// state, with a quorum up and without further faults, a leader is elected.
//
// Time passes in steps of 20 ms for all members at once, after all messages have
// arrived, in any order, and all members have done what is due. Exceptions to that are
// faults and counted: a message that arrives at any later time, twice or never; a
// member that stalls, or is partitioned, for any time; a member that dies between two
// effects. The random delays that spread candidates are always 0 until there are no
// more faults; after that they are used, because otherwise votes could be split for
// ever.
package raftmodel

import (
	"fmt"
	"reflect"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/raft"
	"github.com/conclave-project/conclave/internal/model"
)

// Scope defines how much is explored. Counts apply to a whole run.
type Scope struct {
	Text      string
	Members   int
	Wants     int       // how many of the members want to lead, from the first on
	Rates     [][]int64 // ms that pass for each member in a step: each list is one initial state
	Steps     int       // steps of time
	Terms     uint64    // states with a higher term are not explored
	Late      int       // messages that come at any time
	Losses    int       // messages that never come
	Repeats   int       // messages that come twice
	Freezes   int       // members that stall
	Cuts      int       // members that are partitioned
	Crashes   int       // between two effects, each may be followed by a restart
	Transfers int       // leaders that are asked to step down
	Loses     int       // members that die and return at once without their disks
	Collapses int       // members that forget the election while it is idle, except for its floor
	Mutant    Mutant
}

// Times of the members, in milliseconds.
const (
	leaseMs     = 100
	drift       = 25 // percent
	heartbeatMs = 40
)

// The counters that follow the members, queues and the past.
const (
	steps = iota
	lates
	losses
	repeats
	freezes
	cuts
	crashes
	transfers
	collapses
	loses
	cursor
	numbers
)

type layout struct{ n int }

func (l layout) past() int              { return l.n }
func (l layout) queue(from, to int) int { return l.n + 1 + from*l.n + to }
func (l layout) late() int              { return l.n + 1 + l.n*l.n }
func (l layout) number(n int) int       { return l.late() + 1 + n }

type system struct {
	layout
	scope Scope
}

// id returns the name of the member with a number.
func id(i int) algo.ID { return algo.ID(rune('a' + i)) }

// number reverses id.
func number(id algo.ID) int { return int(id[0] - 'a') }

// New returns the model of a scope.
func New(scope Scope) *model.Model {
	s := &system{layout{scope.Members}, scope}
	slots := make([]model.Slot, s.number(numbers))
	for slot := range slots {
		switch {
		case slot >= s.number(0):
			slots[slot] = model.Number
		case slot > s.past():
			slots[slot] = model.Queue
		}
	}
	m := &model.Model{Name: "raft", Scope: scope.Text, Shape: shape(), Slots: slots, Starts: len(scope.Rates), Start: s.start,
		Step: s.step, Moves: s.moves, Do: s.do, Check: s.check, Rest: s.rest, Converge: s.converge, ConvergeMax: 3000}
	m.Shape.Orders = model.Orders(s.n)
	m.Symmetries = s.symmetries(m.Shape.Orders)
	return m
}

func shape() *model.Shape {
	return &model.Shape{
		Scratch: []string{"raft.Machine.out"},
		Moments: []string{"raftmodel.member.NowMs", "raftmodel.member.UntilMs", "raftmodel.member.TermMs", "raft.promise.untilMs", "raft.Newcomer.allMs", "raft.Newcomer.askAtMs", "raft.Machine.campaignAtMs",
			"raft.Machine.restMs", "raft.Machine.giveUpMs", "raft.Machine.heartbeatAtMs", "raft.Machine.heartbeatMs", "raft.Machine.answered",
			"raft.Machine.provenMs", "raft.Machine.untilMs"},
		Spans:  []string{"raft.Config.*", "raft.Newcomer.quietMs", "raft.Machine.laterMs", "raftmodel.member.RateMs", "raftmodel.member.PhaseMs", "raftmodel.pass.Ms"},
		PastMs: 100 * leaseMs,
		Names: map[reflect.Type]func(reflect.Value) (int, uint64){
			reflect.TypeFor[algo.ID](): func(v reflect.Value) (int, uint64) {
				if v.Len() != 1 {
					return -1, 0
				}
				return int(v.String()[0] - 'a'), 0
			},
		},
	}
}

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
				to[s.queue(i, j)] = s.queue(order[i], order[j])
			}
		}
		all = append(all, to)
	}
	return all
}

// member is one member: a part of the model's world. It is not model.Clocked, because its
// messages carry times: parts at different times must not count as equal.
type member struct {
	ID      algo.ID
	Machine *raft.Machine   // nil while it does not take part
	Entry   *raft.Newcomer  // of a member that lost its disk, until it takes part again
	Life    int             // how often it has lost its disk
	Met     map[algo.ID]int // the latest life of each other member that it has met; on disk
	Disk    algo.State
	Wants   bool
	NowMs   int64
	RateMs  int64 // ms that pass for it in a step
	PhaseMs int64 // phase of its clock, by which it sends heartbeats
	Frozen  bool
	Cut     bool
	TermMs  int64  // when its term or vote last changed; 0 if no member forgets
	Seed    uint64 // of random delays; 0 means none
	Fuse    int    // 0: never; n: it dies in its next step after n-1 effects
	Leads   bool   // the candidate that received Lead may be at work, until UntilMs
	Term    uint64
	UntilMs int64
}

// up reports whether a member runs.
func (p *member) up() bool { return p.Machine != nil || p.Entry != nil }

func (p *member) considersItselfLeader() bool {
	return p.Machine != nil && p.Leads && p.NowMs < p.UntilMs
}

// The events of a member, apart from messages.
type (
	pass     struct{} // a step of time
	tick     struct{}
	fuse     struct{ Effects int }
	restart  struct{}
	want     struct{}
	transfer struct{ To algo.ID }
	freeze   struct{ Frozen bool }
	spread   struct{ Seed uint64 }
	cut      struct{ Cut bool }
	forget   struct{}
	lose     struct{}
	meet     struct { // a connection with another member; one of the two is a newcomer
		ID   algo.ID
		Life int
	}
	gone struct{ ID algo.ID } // that connection has ended
)

// packet is a message on its way, from one life of a member to one life of another.
type packet struct {
	From, To         algo.ID
	FromLife, ToLife int
	algo.Message
	Question *question // of a newcomer, or its answer; then Message is empty
}

// question is a question of a newcomer.
type question struct {
	Round  uint64
	Answer bool
	Told   raft.Told
}

// past remembers what must not happen twice: it is a part that panics if it does.
type past struct {
	Leaders map[uint64]led // by term
	Last    uint64
}

// led is the beginning of a leadership: an event for past.
type led struct {
	ID   algo.ID
	Life int
	Term uint64
}

func (p *past) see(e led) {
	if other, known := p.Leaders[e.Term]; known && other != e {
		panic(fmt.Sprintf("raft-T1: %s and %s lead in term %d", other.ID, e.ID, e.Term))
	}
	if e.Term < p.Last {
		panic(fmt.Sprintf("TOKENS: %s leads in term %d after one of term %d", e.ID, e.Term, p.Last))
	}
	p.Leaders[e.Term], p.Last = e, e.Term
}

func (s *system) start(w *model.World, n int) {
	w.Put(s.past(), &past{Leaders: map[uint64]led{}})
	var members []algo.ID
	for i := range s.n {
		members = append(members, id(i))
	}
	for i := range s.n {
		p := &member{ID: id(i), Disk: algo.State{Config: algo.Config{Version: 1, Members: members}}, Wants: i < s.scope.Wants,
			NowMs: 1_000_000, RateMs: s.scope.Rates[n][i]}
		s.boot(p)
		w.Put(i, p)
	}
	for i := range s.n {
		s.give(w, i, w.Event(want{}))
	}
	for number, budget := range map[int]int{steps: s.scope.Steps, lates: s.scope.Late, losses: s.scope.Losses,
		repeats: s.scope.Repeats, freezes: s.scope.Freezes, cuts: s.scope.Cuts, crashes: s.scope.Crashes,
		transfers: s.scope.Transfers, collapses: s.scope.Collapses, loses: s.scope.Loses} {
		w.SetNumber(s.number(number), budget)
	}
}

// step gives an event to a member.
func (s *system) step(part, event any) []any {
	if o, ok := part.(*past); ok {
		o.see(event.(led))
		return nil
	}
	p := part.(*member)
	switch e := event.(type) {
	case pass:
		p.NowMs += p.RateMs
		p.PhaseMs = p.NowMs % heartbeatMs
		return nil
	case spread:
		s.spread(p, e.Seed)
		return nil
	case freeze:
		p.Frozen = e.Frozen
		return nil
	case cut:
		p.Cut = e.Cut
		return nil
	case fuse:
		p.Fuse = e.Effects + 1
		return nil
	case restart:
		s.boot(p)
		return s.want(p)
	case forget:
		p.Disk = algo.State{Floor: max(p.Disk.Floor, p.Disk.Term), Config: p.Disk.Config}
		s.boot(p)
		return nil
	case want:
		return s.want(p)
	case lose:
		s.lose(p)
		return nil
	case meet:
		return s.meet(p, e)
	case gone:
		if p.Entry != nil {
			p.Entry.Part(e.ID)
		}
		return nil
	case tick:
		if p.Entry != nil {
			return s.ask(p)
		}
		return s.feed(p, algo.Tick{})
	case transfer:
		return s.feed(p, algo.Transfer{To: e.To})
	case packet:
		if e.Question != nil {
			return s.question(p, e)
		}
		return s.feed(p, algo.Received{From: e.From, Message: e.Message})
	}
	panic(fmt.Sprintf("raftmodel: event %T", event))
}

// boot gives a member a machine with the content of its disk.
func (s *system) boot(p *member) {
	cfg := raft.Config{ID: p.ID, State: p.Disk, LeaseMs: leaseMs, DriftPercent: drift, HeartbeatMs: heartbeatMs, SpreadMs: 1}
	p.Machine = raft.New(p.NowMs, cfg)
	model.SetField(p.Machine, "seed", uint64(0)) // random delays are always 0
	p.PhaseMs = p.NowMs % heartbeatMs
	if p.Seed != 0 {
		s.spread(p, p.Seed)
	}
}

// spread turns on random delays.
func (s *system) spread(p *member, seed uint64) {
	if p.Seed = seed; p.Machine == nil {
		return
	}
	cfg := model.Field(p.Machine, "cfg").Interface().(raft.Config)
	cfg.SpreadMs = leaseMs
	model.SetField(p.Machine, "cfg", cfg)
	model.SetField(p.Machine, "seed", seed)
}

func (s *system) want(p *member) []any {
	if !p.Wants {
		return nil
	}
	return s.feed(p, algo.Campaign{})
}

// feed steps the machine and carries its effects out, up to a crash.
func (s *system) feed(p *member, event algo.Event) []any {
	if p.Machine == nil {
		return nil
	}
	s.scope.Mutant.before(p, event)
	var out []any
	for k, effect := range p.Machine.Step(p.NowMs, event) {
		if p.Fuse == k+1 {
			break
		}
		switch e := effect.(type) {
		case algo.Send:
			out = append(out, p.packet(e.To, e.Message, nil))
		case algo.Persist:
			s.scope.Mutant.persist(p, e.State)
			if s.scope.Collapses > 0 {
				p.TermMs = p.NowMs
			}
			out = append(out, note(e.String()))
		case algo.Lead:
			p.Leads, p.Term, p.UntilMs = true, e.Term, s.scope.Mutant.until(p, e.SentMs, e.UntilMs)
			out = append(out, led{p.ID, p.Life, e.Term})
		case algo.Extend:
			p.UntilMs = s.scope.Mutant.until(p, e.SentMs, e.UntilMs)
			out = append(out, note(e.String()))
		case algo.Lost:
			switch event.(type) {
			case algo.Transfer, algo.Withdraw:
				p.Leads, p.UntilMs = false, 0
			default: // a holder that received Lead may be at work until UntilMs
			}
			out = append(out, note(e.String()))
		default:
			out = append(out, note(e.String()))
		}
	}
	if p.Fuse > 0 {
		p.Machine, p.Leads, p.UntilMs, p.Fuse = nil, false, 0, 0
		p.Frozen = false
		out = append(out, note("DIES"))
	}
	return out
}

// note is a line of the trace.
type note string

// check checks a state (raft-T3).
func (s *system) check(w *model.World) {
	first := algo.ID("")
	for i := range s.n {
		if p := s.part(w, i); p.considersItselfLeader() {
			if first != "" {
				w.Fail("raft-T3: %s and %s lead at one time", first, p.ID)
			}
			first = p.ID
		}
	}
}

func (s *system) part(w *model.World, i int) *member { return w.Part(i).(*member) }
