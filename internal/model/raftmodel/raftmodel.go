// Package raftmodel explores the election of Raft: package algo/raft's members,
// whole, with what they keep on disk, on clocks whose rates differ by as much as
// the members allow for.
//
// What must hold: one member leads in a term (raft-T1); no two consider themselves leaders at one
// moment, stalling or not (raft-T3); the terms of leaderships grow; and from
// every state, with a quorum up and faults gone, a leader emerges.
//
// Time passes in steps of 20 ms for all at once, when all messages have come, in
// any order, and all are done with what is due. What keeps to that no longer is
// counted: a message that comes at any later time, or twice, or never; a member
// that stalls, or whose messages reach nobody and that receives nothing, for as long as
// it likes; one that dies between two effects. Chance, by which candidates spread, is
// always 0 until faults have gone: then they spread, or would split votes for ever.
package raftmodel

import (
	"fmt"
	"reflect"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/raft"
	"github.com/conclave-project/conclave/internal/model"
)

// Scope says how much is explored. Counts are of a whole run.
type Scope struct {
	Text      string
	Members   int
	Wants     int       // how many of them want to lead, from the first on
	Rates     [][]int64 // ms that pass for each in a step: one start each
	Steps     int       // of time
	Terms     uint64    // beyond this one nothing is explored
	Late      int       // messages that come at any time
	Losses    int       // messages that never come
	Repeats   int       // messages that come twice
	Freezes   int       // members that stall
	Cuts      int       // members that are partitioned
	Crashes   int       // between two effects, each may be followed by a restart
	Transfers int       // leaders that are asked to step down
	Loses     int       // members that die and come back at once, without their disks
	Collapses int       // members that forget the election while it is idle, but for its floor
	Mutant    Mutant
}

// Times of the members, in milliseconds.
const (
	leaseMs     = 100
	drift       = 25 // percent
	heartbeatMs = 40
)

// The numbers after the members, queues and the past.
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

// id is the name of a member by its number.
func id(i int) algo.ID { return algo.ID(rune('a' + i)) }

// number is the reverse.
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

// member is one of them: a part. It is not model.Clocked, for messages carry
// moments: parts at different times must not pass for one.
type member struct {
	ID      algo.ID
	Machine *raft.Machine   // nil while it takes no part
	Entry   *raft.Newcomer  // of one that lost its disk, until it takes part
	Life    int             // how often it has lost its disk
	Met     map[algo.ID]int // the latest life of each other that it has met, on disk
	Disk    algo.State
	Wants   bool
	NowMs   int64
	RateMs  int64 // that pass for it in a step
	PhaseMs int64 // of its clock, by which it sends heartbeats
	Frozen  bool
	Cut     bool
	TermMs  int64  // its term or vote has changed last; 0 where nobody forgets
	Seed    uint64 // of chance; 0 while there is none
	Fuse    int    // it dies in its next step after so many effects, less one; 0 for never
	Leads   bool   // the candidate that it has told Lead may be at work, until UntilMs
	Term    uint64
	UntilMs int64
}

// up reports whether a member runs.
func (p *member) up() bool { return p.Machine != nil || p.Entry != nil }

func (p *member) considersItselfLeader() bool {
	return p.Machine != nil && p.Leads && p.NowMs < p.UntilMs
}

// The events of a member beside messages.
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
	meet     struct { // a connection with a member, of which one is a newcomer
		ID   algo.ID
		Life int
	}
	gone struct{ ID algo.ID } // it has ended
)

// packet is a message on its way. It comes from a life of a member and goes to one.
type packet struct {
	From, To         algo.ID
	FromLife, ToLife int
	algo.Message
	Question *question // of a newcomer, or the answer; then there is no message
}

// question is what a newcomer asks.
type question struct {
	Round  uint64
	Answer bool
	Told   raft.Told
}

// past is what must not repeat: a part that panics.
type past struct {
	Leaders map[uint64]led // by term
	Last    uint64
}

// led is a leadership that begins: an event of the past.
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

// step is what an event makes of a member.
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

// boot gives a member a machine with what its disk has.
func (s *system) boot(p *member) {
	cfg := raft.Config{ID: p.ID, State: p.Disk, LeaseMs: leaseMs, DriftPercent: drift, HeartbeatMs: heartbeatMs, SpreadMs: 1}
	p.Machine = raft.New(p.NowMs, cfg)
	model.SetField(p.Machine, "seed", uint64(0)) // chance is always 0
	p.PhaseMs = p.NowMs % heartbeatMs
	if p.Seed != 0 {
		s.spread(p, p.Seed)
	}
}

// spread lets chance play from here on.
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
			default: // a holder that was told Lead may be at work until then
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

// check looks at a state (raft-T3).
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
