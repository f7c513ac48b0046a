package electormodel

import (
	"errors"
	"slices"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/claims"
	"github.com/conclave-project/conclave/internal/elector"
	"github.com/conclave-project/conclave/internal/model"
)

// candidate is one candidate with its shell: a part of the model's world. It is not
// model.Clocked, because its messages carry times: parts at different times must not count
// as equal.
type candidate struct {
	Name          name
	Machine       *elector.Machine
	Memory        *claims.Memory
	Calls         []running
	Grants        grants
	NowMs, RateMs int64
	Frozen        bool
	Leads         bool // between Elect and Lost
	DeadlineMs    int64
	Runs          uint64 // the attempt whose function runs; 0 for none
	Told          bool   // whether this function was told to end
	Last          uint64 // the attempt of the previous leadership
	Handle        uint64 // the handle that a resignation uses now
}

// grants are the grants by attempt, from Acquired to the end of Release.
type grants map[uint64]election.Grant

// call identifies a call of the backend: Acquire, Renew or Release of an attempt.
type call struct {
	Kind    kind
	Attempt uint64
	Number  uint64 // number of the renewal, or of the attempt to release
}

type kind uint8

const (
	acquire kind = iota
	renew
	release
)

// running is a call that waits for an answer, or for a time.
type running struct {
	call
	Op    claims.Op
	Kind  claims.WantKind
	Until clock.Instant
	// Version is the version whose change ends a Wait.
	Version string
}

// releasesMax is how often a release is tried before it is left to the expiry of the lease.
const releasesMax = 2

// The events of a candidate, apart from answers.
type (
	begin    struct{}
	pass     struct{}
	tick     struct{}
	wake     struct{ Call call } // the call's wait is over
	freeze   struct{ Frozen bool }
	returned struct{}
	resign   struct{ Stale bool } // Stale: with the handle of the previous leadership
)

// note is a line of the trace.
type note string

// turn is the processing of one event by a candidate.
type turn struct {
	*candidate
	mutant Mutant
	out    []any
}

func (t *turn) now() clock.Instant {
	return clock.Instant(time.Duration(t.NowMs) * time.Millisecond)
}

// take handles an event.
func (t *turn) take(event any) {
	switch e := event.(type) {
	case begin:
		model.SetField(t.Machine, "seed", uint64(0)) // chance is always 0
		t.feed(elector.Start{})
	case pass:
		t.NowMs += t.RateMs
		t.mutant.pass(t)
	case freeze:
		t.Frozen = e.Frozen
	case tick:
		t.feed(elector.Tick{})
	case wake:
		t.answer(e.Call, claims.Answer{Kind: claims.Woken})
	case resign:
		t.Handle = t.Runs
		if e.Stale {
			t.Handle = t.Last
		}
		t.feed(elector.Resign{Attempt: t.mutant.handle(t.candidate)})
		t.Handle = 0
	case returned:
		attempt := t.Runs
		t.Runs, t.Told, t.Last = 0, false, attempt
		t.feed(elector.FunctionEnded{Attempt: attempt})
	case answer:
		t.answer(e.Call, t.mutant.answer(t, e))
	}
}

// feed steps the machine and carries out the effects.
func (t *turn) feed(event elector.Event) {
	for _, effect := range slices.Clone(t.Machine.Step(t.NowMs, event)) {
		t.out = append(t.out, note(effect.String()))
		switch e := effect.(type) {
		case elector.Acquire:
			claim := election.Claim{Election: "e", ID: id(t.Name), Nonce: nonce(t.Name, e.Attempt), Lease: leaseMs * time.Millisecond}
			t.Grants[e.Attempt] = election.Grant{Claim: claim}
			t.call(call{acquire, e.Attempt, 0}, t.Memory.Candidate(claim, 0))
		case elector.Abandon:
			t.cancel(call{acquire, e.Attempt, 0})
		case elector.Elect:
			t.Leads, t.DeadlineMs, t.Runs, t.Told = true, e.DeadlineMs, e.Attempt, false
			t.out = append(t.out, led{t.Name, e.Token})
		case elector.Renew:
			t.renew(e.Attempt, e.Renewal)
		case elector.CancelRenew:
			t.cancel(call{renew, e.Attempt, e.Renewal})
		case elector.Extend:
			t.DeadlineMs = e.DeadlineMs
		case elector.End:
			if e.Reason == elector.Resigned && t.Handle != e.Attempt {
				panic("RESIGN: a leadership ends by the handle of another")
			}
			t.Told = true
			t.mutant.ending(t, e.Attempt)
		case elector.Lost:
			t.Leads = false
		case elector.Release:
			if t.Runs == e.Attempt {
				panic("L3: a claim is released while its function runs")
			}
			t.release(e.Attempt, 0)
		}
	}
}

// renew begins a renewal of a leadership.
func (t *turn) renew(attempt, number uint64) {
	if op := t.Memory.Renewal(t.Grants[attempt]); op != nil {
		t.call(call{renew, attempt, number}, op)
		return
	}
	t.feed(elector.RenewFailed{Attempt: attempt, Renewal: number, Lost: true})
}

func (t *turn) release(attempt, try uint64) {
	t.cancel(call{acquire, attempt, 0})
	t.call(call{release, attempt, try}, t.Memory.Release(t.Grants[attempt]))
}

// call begins a call.
func (t *turn) call(c call, op claims.Op) {
	t.Calls = append(t.Calls, running{call: c, Op: op})
	t.want(c, op.Begin(t.now()))
}

// find returns a call, nil if it has ended.
func (c *candidate) find(name call) *running {
	for i := range c.Calls {
		if c.Calls[i].call == name {
			return &c.Calls[i]
		}
	}
	return nil
}

// cancel ends a call early, as the end of a context does: a request that was sent may still
// take effect.
func (t *turn) cancel(c call) {
	r := t.find(c)
	if r == nil {
		return
	}
	if r.Kind == claims.Write {
		r.Op.Answer(t.now(), claims.Answer{})
	}
	t.end(c)
}

func (t *turn) end(c call) {
	t.Calls = slices.DeleteFunc(t.Calls, func(r running) bool { return r.call == c })
	if len(t.Calls) == 0 {
		t.Calls = nil
	}
}

// answer gives a call the answer that it waits for.
func (t *turn) answer(c call, a claims.Answer) {
	if r := t.find(c); r != nil {
		t.want(c, r.Op.Answer(t.now(), a))
	}
}

// want carries out what a call wants next.
func (t *turn) want(c call, w claims.Want) {
	r := t.find(c)
	r.Kind, r.Until, r.Version = w.Kind, w.Until, w.Version
	switch w.Kind {
	case claims.Done:
		t.end(c)
		t.done(c, w)
	case claims.Read, claims.Write:
		t.out = append(t.out, ask{From: t.Name, Call: c, Want: w})
	}
}

// done reports the result of a call to the machine.
func (t *turn) done(c call, w claims.Want) {
	switch {
	case c.Kind == acquire && w.Err == nil:
		t.Grants[c.Attempt] = w.Grant
		t.out = append(t.out, granted{w.Grant.Claim.Nonce, uint64(w.Grant.Token)})
		t.feed(elector.Acquired{Attempt: c.Attempt, Token: uint64(w.Grant.Token), SentMs: t.mutant.sent(t, w.Grant),
			LeaseMs: w.Grant.Lease.Milliseconds()})
	case c.Kind == acquire:
		t.feed(elector.AcquireFailed{Attempt: c.Attempt})
	case c.Kind == renew && w.Err == nil:
		t.Grants[c.Attempt] = w.Grant
		t.feed(elector.Renewed{Attempt: c.Attempt, Renewal: c.Number, SentMs: t.mutant.sent(t, w.Grant),
			LeaseMs: w.Grant.Lease.Milliseconds()})
	case c.Kind == renew:
		t.feed(elector.RenewFailed{Attempt: c.Attempt, Renewal: c.Number, Lost: errors.Is(w.Err, election.ErrLost)})
	case w.Err != nil && c.Number+1 < releasesMax:
		t.release(c.Attempt, c.Number+1)
	default:
		delete(t.Grants, c.Attempt)
		t.feed(elector.Released{Attempt: c.Attempt})
	}
}
