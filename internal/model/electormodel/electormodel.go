// Package electormodel explores candidates of an application's election: package
// elector's machines, whole, with functions that do not end when they are told to,
// on a store that gives leases.
//
// The store is a stand-in: one record, a holder, a token that grows, a lease by
// the store's own clock. The rules of election/record are not in it. Requests and
// answers may come at any later time or never, candidates may stand still, and
// clocks differ in rate by as much as the machines allow for.
//
// What must hold: no two lead at one moment, each by its own deadline (L1); the
// tokens of leaderships grow, and no token is given twice; a claim is released only
// when its function has ended (L3); and from every state, without further faults,
// somebody comes to lead though a function never ends (L9).
package electormodel

import (
	"fmt"
	"reflect"

	"github.com/conclave-project/conclave/internal/elector"
	"github.com/conclave-project/conclave/internal/model"
)

// Scope says how much is explored. Counts are of a whole run.
type Scope struct {
	Text       string
	Candidates int
	Rates      [][]int64 // ms that pass in a step for each, and for the store: one start each
	Steps      int       // of time
	Late       int       // messages that come at any time
	Losses     int       // messages that never come
	Freezes    int       // candidates that stand still
	Resigns    int
	Mutant     Mutant
}

// Mutant is a known bug, put back around a candidate.
type Mutant string

// The mutants.
const (
	None            Mutant = ""
	DeadlineBehind  Mutant = "elector-deadline-behind-callback"
	RenewsForEver   Mutant = "elector-renewal-while-ending"
	GrantByReading  Mutant = "elector-grant-by-reading"
	ReleasedTooSoon Mutant = "elector-released-too-soon"
)

// Mutants are all of them, with what they do.
var Mutants = []struct {
	Mutant
	Origin, What string
}{
	{DeadlineBehind, "two led because of a log that nobody read", "a leadership ends when its function has ended, whatever the deadline"},
	{RenewsForEver, "a function that did not end kept the election", "a leadership is renewed as long as its function runs"},
	{GrantByReading, "a primary that was cut off elected a leader of its own", "a grant counts from when it was seen, not from when it was asked for"},
	{ReleasedTooSoon, "scenario E08", "a claim is released when its function is told to end"},
}

// Times, in milliseconds.
const (
	leaseMs = 100
	drift   = 25 // percent
)

// The numbers behind candidates, store, past, queues.
const (
	steps = iota
	lates
	losses
	freezes
	resigns
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

// name is which of the candidates, from 1 on; 0 is nobody.
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
		Step: s.step, Moves: s.moves, Do: s.do, Check: s.check, Rest: s.rest, Settle: s.settle, SettleMax: 3000}
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
		Scratch: []string{"elector.Machine.out"},
		Moments: []string{"electormodel.candidate.NowMs", "electormodel.candidate.DeadlineMs", "electormodel.candidate.SentMs",
			"electormodel.store.NowMs", "electormodel.store.UntilMs", "elector.Machine.deadlineMs", "elector.Machine.endSaidMs",
			"elector.Machine.renewSentMs", "elector.Machine.renewNextMs", "elector.Machine.untilMs", "elector.Machine.provenMs"},
		Spans:  []string{"elector.Config.*", "elector.Machine.leaseMs", "electormodel.candidate.RateMs", "electormodel.store.RateMs", "electormodel.ask.SentMs", "electormodel.answer.SentMs"},
		PastMs: 1 << 40,
		Names: map[reflect.Type]func(reflect.Value) (int, uint64){
			reflect.TypeFor[name](): func(v reflect.Value) (int, uint64) { return int(v.Int()) - 1, 0 },
		},
	}
}

// candidate is one of them, with its shell: a part. It is not model.Clocked, for
// messages carry moments: parts at different times must not pass for one.
type candidate struct {
	Name       name
	Machine    *elector.Machine
	NowMs      int64
	RateMs     int64
	Frozen     bool
	Leads      bool // between Elect and Lost
	DeadlineMs int64
	Runs       uint64 // the attempt whose function runs; 0 for none
	Told       bool   // that function was told to end
	Attempt    uint64 // that is with the store, 0 for none
}

// store is the record and the clock by which its lease counts: a part.
type store struct {
	NowMs   int64
	RateMs  int64
	Holder  name
	Attempt uint64
	Token   uint64
	UntilMs int64
}

// ask is a request to the store, and answer what it says. SentMs is by the
// candidate's clock.
type ask struct {
	From             name
	Kind             kind
	Attempt, Renewal uint64
	SentMs           int64
}

type answer struct {
	ask
	OK    bool
	Token uint64
}

type kind uint8

const (
	acquire kind = iota
	renew
	release
)

// The events of a candidate beside answers.
type (
	begin    struct{}
	pass     struct{}
	tick     struct{}
	freeze   struct{ Frozen bool }
	returned struct{}
	resign   struct{}
)

// led is a leadership that begins.
type led struct {
	Name  name
	Token uint64
}

// past is what must not repeat: a part that panics.
type past struct{ Token uint64 }

type note string

func (s *system) start(w *model.World, n int) {
	rates := s.scope.Rates[n]
	w.Put(s.past(), &past{})
	w.Put(s.store(), &store{NowMs: 1_000_000, RateMs: rates[s.n]})
	for i := range s.n {
		w.Put(i, &candidate{Name: name(i + 1), NowMs: 1_000_000, RateMs: rates[i], Machine: elector.New(elector.Config{
			LeaseMs: leaseMs, GraceMs: 20, EndLimitMs: 40, DriftPercent: drift, RetryMs: 1, RetryMaxMs: 1, ReleaseMs: 40, Forever: true, Seed: 1})})
	}
	for i := range s.n {
		s.give(w, i, w.Event(begin{}))
	}
	for number, budget := range map[int]int{steps: s.scope.Steps, lates: s.scope.Late, losses: s.scope.Losses, freezes: s.scope.Freezes,
		resigns: s.scope.Resigns} {
		w.SetNumber(s.number(number), budget)
	}
}

// step is what an event makes of a part.
func (s *system) step(part, event any) []any {
	switch p := part.(type) {
	case *past:
		e := event.(led)
		if e.Token <= p.Token {
			panic(fmt.Sprintf("TOKENS: candidate %d leads with token %d after %d", e.Name, e.Token, p.Token))
		}
		p.Token = e.Token
		return nil
	case *store:
		if _, passes := event.(pass); passes {
			p.NowMs += p.RateMs
			return nil
		}
		return []any{p.take(event.(ask))}
	}
	c := part.(*candidate)
	switch e := event.(type) {
	case begin:
		model.SetField(c.Machine, "seed", uint64(0)) // chance is always 0
		return s.feed(c, elector.Start{})
	case pass:
		c.NowMs += c.RateMs
	case freeze:
		c.Frozen = e.Frozen
	case tick:
		return s.feed(c, elector.Tick{})
	case resign:
		return s.feed(c, elector.Resign{Attempt: c.Runs})
	case returned:
		attempt := c.Runs
		c.Runs, c.Told = 0, false
		return s.feed(c, elector.FunctionEnded{Attempt: attempt})
	case answer:
		return s.hear(c, e)
	}
	return nil
}

// take carries a request out.
func (r *store) take(e ask) answer {
	a := answer{ask: e}
	mine := r.Holder == e.From && r.Attempt == e.Attempt
	switch {
	case e.Kind == acquire && (r.Holder == 0 || r.NowMs >= r.UntilMs || mine):
		if !mine {
			r.Token++
		}
		r.Holder, r.Attempt, r.UntilMs = e.From, e.Attempt, r.NowMs+leaseMs
		a.OK, a.Token = true, r.Token
	case e.Kind == renew && mine:
		r.UntilMs = r.NowMs + leaseMs
		a.OK = true
	case e.Kind == release && mine:
		r.Holder, r.Attempt, r.UntilMs = 0, 0, 0
	}
	return a
}

// hear takes an answer. A refused attempt asks again, as a backend in line does.
func (s *system) hear(c *candidate, e answer) []any {
	sentMs := e.SentMs
	if s.scope.Mutant == GrantByReading {
		sentMs = c.NowMs
	}
	switch {
	case e.Kind == release:
		return s.feed(c, elector.Released{Attempt: e.Attempt})
	case e.Kind == renew && e.OK:
		return s.feed(c, elector.Renewed{Attempt: e.Attempt, Renewal: e.Renewal, SentMs: sentMs, LeaseMs: leaseMs})
	case e.Kind == renew:
		return s.feed(c, elector.RenewFailed{Attempt: e.Attempt, Renewal: e.Renewal, Lost: true})
	case e.OK:
		c.leaveLine(e.Attempt)
		return s.feed(c, elector.Acquired{Attempt: e.Attempt, Token: e.Token, SentMs: sentMs, LeaseMs: leaseMs})
	}
	return nil
}

// leaveLine ends the asking for an attempt.
func (c *candidate) leaveLine(attempt uint64) {
	if c.Attempt == attempt {
		c.Attempt = 0
	}
}

// feed steps the machine and carries out what it wants.
func (s *system) feed(c *candidate, event elector.Event) []any {
	var out []any
	for _, effect := range c.Machine.Step(c.NowMs, event) {
		out = append(out, note(effect.String()))
		switch e := effect.(type) {
		case elector.Acquire:
			c.Attempt = e.Attempt
			out = append(out, ask{c.Name, acquire, e.Attempt, 0, c.NowMs})
		case elector.Abandon:
			c.leaveLine(e.Attempt)
		case elector.Elect:
			c.Leads, c.DeadlineMs, c.Runs, c.Told = true, e.DeadlineMs, e.Attempt, false
			out = append(out, led{c.Name, e.Token})
		case elector.Renew:
			out = append(out, ask{c.Name, renew, e.Attempt, e.Renewal, c.NowMs})
		case elector.Extend:
			c.DeadlineMs = e.DeadlineMs
		case elector.End:
			c.Told = true
			if s.scope.Mutant == ReleasedTooSoon {
				out = append(out, ask{c.Name, release, e.Attempt, 0, c.NowMs})
			}
		case elector.Lost:
			c.Leads = false
		case elector.Release:
			if c.Runs == e.Attempt {
				panic("L3: a claim is released while its function runs")
			}
			c.leaveLine(e.Attempt)
			out = append(out, ask{c.Name, release, e.Attempt, 0, c.NowMs})
		}
	}
	return out
}

// believes reports whether a candidate leads, for all it knows.
func (s *system) believes(c *candidate) bool {
	if s.scope.Mutant == DeadlineBehind {
		return c.Runs != 0
	}
	return c.Leads && c.NowMs < c.DeadlineMs
}

// check looks at a state (L1).
func (s *system) check(w *model.World) {
	first := name(0)
	for i := range s.n {
		if c := s.part(w, i); s.believes(c) {
			if first != 0 {
				w.Fail("L1: candidates %d and %d lead", first, c.Name)
			}
			first = c.Name
		}
	}
}

func (s *system) part(w *model.World, i int) *candidate { return w.Part(i).(*candidate) }
