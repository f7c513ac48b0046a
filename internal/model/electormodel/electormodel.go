// Package electormodel explores candidates of an application's election on a store
// of one record. It runs package elector's machines and those of package claims,
// the rules of election/record, completely, with functions that do not end when
// they are told to.
//
// The store compares and sets. It may lose requests and answers, carry out requests after the caller has
// given up, answer at any later time, deliver old records by a late watch, and fail over and forget its
// latest writes. It may also be split into two sides for a while, one of which shows what it applies but
// confirms nothing and loses everything in the end. Candidates may stall, and clocks differ in rate by as
// much as the machines allow.
//
// What must hold: no two lead at one moment, each by its own deadline (elector-L1), so that
// every deadline comes before the successor; the tokens of leaderships grow, and no token
// is granted to two claims; a claim is released only when its function has ended
// (elector-L3); a resignation takes effect only with the handle of that leadership; and
// from every state, without further faults, some candidate eventually leads even if a
// function never ends (elector-L9).
package electormodel

import (
	"reflect"
	"strconv"

	"github.com/conclave-project/conclave/internal/claims"
	"github.com/conclave-project/conclave/internal/elector"
	"github.com/conclave-project/conclave/internal/model"
)

// Scope defines how much is explored. Counts apply to a whole run.
type Scope struct {
	Text       string
	Candidates int
	Rates      [][]int64 // ms that pass in a step for each candidate and the store: each list is one initial state
	Steps      int       // steps of time
	Late       int       // requests and answers that arrive at any time, whether or not anybody waits
	Losses     int       // requests and answers that never come
	Freezes    int       // candidates that stall
	Resigns    int       // by the handle of the current leadership, or of the previous one
	Failovers  int       // of the store, which may forget
	Parts      int       // splits of the store in two
	Mutant     Mutant
}

// Times, in milliseconds.
const (
	leaseMs = 100
	drift   = 25 // percent
)

// The counters that follow candidates, store, past, queues.
const (
	steps = iota
	lates
	losses
	freezes
	resigns
	failovers
	parts
	numbers
)

type layout struct{ n int }

func (l layout) store() int        { return l.n }
func (l layout) past() int         { return l.n + 1 }
func (l layout) asks(i int) int    { return l.n + 2 + i }
func (l layout) answers(i int) int { return l.n + 2 + l.n + i }
func (l layout) late() int         { return l.n + 2 + 2*l.n }
func (l layout) number(n int) int  { return l.late() + 1 + n }

type system struct {
	layout
	scope Scope
}

// name is the number of a candidate, from 1; 0 means none.
type name int

// New returns the model of a scope.
func New(scope Scope) *model.Model {
	s := &system{layout{scope.Candidates}, scope}
	slots := make([]model.Slot, s.number(numbers))
	for slot := range slots {
		switch {
		case slot >= s.number(0):
			slots[slot] = model.Number
		case slot > s.past():
			slots[slot] = model.Queue
		}
	}
	m := &model.Model{Name: "elector", Scope: scope.Text, Shape: shape(), Slots: slots, Starts: len(scope.Rates), Start: s.start,
		Step: s.step, Moves: s.moves, Do: s.do, Check: s.check, Rest: s.rest, Converge: s.converge, ConvergeMax: 3000}
	m.Shape.Orders = model.Orders(s.n)
	for _, order := range m.Shape.Orders {
		to := make([]int, len(slots))
		for slot := range to {
			to[slot] = slot
		}
		for i := range s.n {
			to[i], to[s.asks(i)], to[s.answers(i)] = order[i], s.asks(order[i]), s.answers(order[i])
		}
		m.Symmetries = append(m.Symmetries, to)
	}
	return m
}

func shape() *model.Shape {
	return &model.Shape{
		Scratch: []string{"elector.Machine.out", "claims.Record.History", "election.Grant.Lost", "election.Grant.News",
			"election.Grant.Files"},
		Moments: []string{"electormodel.candidate.NowMs", "electormodel.candidate.DeadlineMs", "electormodel.store.NowMs",
			"electormodel.side.AdoptedMs", "elector.Machine.deadlineMs", "elector.Machine.endSaidMs",
			"elector.Machine.renewSentMs", "elector.Machine.renewNextMs", "elector.Machine.untilMs", "elector.Machine.provenMs"},
		Spans: []string{"elector.Config.*", "elector.Machine.leaseMs", "electormodel.candidate.RateMs", "electormodel.store.RateMs",
			"claims.Record.LeaseMs", "claims.Next.LeaseMs", "claims.Sight.leaseMs"},
		PastMs: 1 << 40,
		Names: map[reflect.Type]func(reflect.Value) (int, uint64){
			reflect.TypeFor[name]():   func(v reflect.Value) (int, uint64) { return int(v.Int()) - 1, 0 },
			reflect.TypeFor[string](): func(v reflect.Value) (int, uint64) { return parse(v.String()) },
		},
	}
}

// nonce names an attempt of a candidate, and id the candidate: "b7" and "b0".
func nonce(n name, attempt uint64) string {
	return string(rune('a'+n-1)) + strconv.FormatUint(attempt, 10)
}

func id(n name) string { return nonce(n, 0) }

// parse reverses nonce and id; it returns -1 for other texts, such as versions and states
// of waiters.
func parse(text string) (which int, attempt uint64) {
	if len(text) < 2 || text[0] < 'a' || text[0] > 'c' {
		return -1, 0
	}
	attempt, err := strconv.ParseUint(text[1:], 10, 64)
	if err != nil {
		return -1, 0
	}
	return int(text[0] - 'a'), attempt
}

func (s *system) start(w *model.World, n int) {
	rates := s.scope.Rates[n]
	w.Put(s.past(), &past{Granted: map[uint64]string{}})
	w.Put(s.store(), &store{NowMs: 1_000_000, RateMs: rates[s.n], Sides: []side{{Incarnation: 1}}})
	for i := range s.n {
		// There is no pause between two attempts, because the next one would be a whole
		// step of time later.
		w.Put(i, &candidate{Name: name(i + 1), NowMs: 1_000_000, RateMs: rates[i], Memory: claims.NewMemory(), Grants: grants{},
			Machine: elector.New(elector.Config{LeaseMs: leaseMs, GraceMs: 20, EndLimitMs: 40, DriftPercent: drift,
				ReleaseMs: 40, Forever: true, Seed: 1})})
	}
	for i := range s.n {
		s.give(w, i, w.Event(begin{}))
	}
	for number, budget := range map[int]int{steps: s.scope.Steps, lates: s.scope.Late, losses: s.scope.Losses, freezes: s.scope.Freezes,
		resigns: s.scope.Resigns, failovers: s.scope.Failovers, parts: s.scope.Parts} {
		w.SetNumber(s.number(number), budget)
	}
}

// step gives an event to a part and returns the effects.
func (s *system) step(part, event any) []any {
	switch p := part.(type) {
	case *past:
		p.see(event)
		return nil
	case *store:
		return p.take(event, s.scope.Mutant)
	}
	t := &turn{candidate: part.(*candidate), mutant: s.scope.Mutant}
	t.take(event)
	return t.out
}

// leads reports whether a candidate considers itself leader.
func (s *system) leads(c *candidate) bool {
	if s.scope.Mutant == DeadlineAfter {
		return c.Runs != 0
	}
	return c.Leads && c.NowMs < c.DeadlineMs
}

// check checks a state (elector-L1).
func (s *system) check(w *model.World) {
	first := name(0)
	for i := range s.n {
		if c := s.part(w, i); s.leads(c) {
			if first != 0 {
				w.Fail("elector-L1: candidates %d and %d lead", first, c.Name)
			}
			first = c.Name
		}
	}
}

func (s *system) part(w *model.World, i int) *candidate { return w.Part(i).(*candidate) }
