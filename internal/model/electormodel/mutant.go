package electormodel

import (
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/claims"
	"github.com/conclave-project/conclave/internal/model"
)

// Mutant is a known bug, put back around a candidate or the store.
type Mutant string

// The mutants.
const (
	None            Mutant = ""
	DeadlineAfter   Mutant = "elector-deadline-after-callback"
	RenewsForEver   Mutant = "elector-renewal-while-ending"
	GrantByReading  Mutant = "elector-grant-by-reading"
	NotStrided      Mutant = "elector-token-not-strided"
	StaleResign     Mutant = "elector-stale-resign"
	LeaseFromAnswer Mutant = "elector-lease-from-answer"
	ReleasedTooSoon Mutant = "elector-released-too-soon"
	BlindWrites     Mutant = "elector-blind-writes"
)

// Mutants returns all mutants.
func Mutants() []model.Mutant {
	return []model.Mutant{
		hunt(DeadlineAfter, "elector", Full, "two led because of a log that nobody read", "a leadership ends when its function has ended, whatever the deadline"),
		hunt(RenewsForEver, "elector-resign", FullResign, "a function that did not end kept the election", "a leadership is renewed as long as its function runs"),
		hunt(GrantByReading, "elector-parts", FullParts, "a primary that was partitioned elected a leader of its own", "a write that is not confirmed is granted, as a read shows it"),
		hunt(NotStrided, "elector-failover", FullFailover, "two leaders had one token", "the token after a failover is one above the last that is remembered"),
		hunt(StaleResign, "elector-resign", FullResign, "a leadership was ended by the handle of the one before", "the handle of an old leadership ends the present one"),
		hunt(LeaseFromAnswer, "elector-links", Late, "scenario-E05", "a lease counts from the answer, not from the request"),
		hunt(ReleasedTooSoon, "elector-resign", FullResign, "scenario-E08", "a claim is released when its function is told to end"),
		hunt(BlindWrites, "elector", Full, "an error of the textbooks", "writes do not compare the version"),
	}
}

// hunt returns a mutant with the scope in which it is searched for.
func hunt(m Mutant, in string, s Scope, origin, what string) model.Mutant {
	s.Mutant = m
	return model.Mutant{Name: string(m), Model: in, Origin: origin, What: what, New: func() *model.Model { return New(s) }}
}

// sent returns the time from which a mutant counts a lease.
func (m Mutant) sent(t *turn, g election.Grant) int64 {
	if m == LeaseFromAnswer {
		return t.NowMs
	}
	return g.Sent.Millis()
}

// handle returns the leadership that a mutant ends.
func (m Mutant) handle(c *candidate) uint64 {
	if m == StaleResign {
		return c.Runs
	}
	return c.Handle
}

// ending is called when a function is told to end.
func (m Mutant) ending(t *turn, attempt uint64) {
	if m == ReleasedTooSoon {
		t.release(attempt, releasesMax)
	}
}

// pass is called when time passes.
func (m Mutant) pass(t *turn) {
	again := call{renew, t.Runs, 1 << 20}
	if m == RenewsForEver && t.Told && !t.Frozen && t.find(again) == nil {
		if op := t.Memory.Renewal(t.Grants[t.Runs]); op != nil {
			t.call(again, op)
		}
	}
}

// answer returns an answer as the mutant sees it.
func (m Mutant) answer(t *turn, e answer) claims.Answer {
	a, r := e.Answer, t.find(e.Call)
	mine := a.Kind == claims.Shown && a.Record.Nonce == nonce(t.Name, e.Call.Attempt)
	if m == GrantByReading && mine && r != nil && e.Call.Kind == acquire {
		g := t.Grants[e.Call.Attempt]
		g.Token, g.Lease, g.Sent = a.Record.Token, g.Claim.Lease, t.now()
		t.end(e.Call)
		t.done(e.Call, claims.Want{Grant: g})
	}
	return a
}
