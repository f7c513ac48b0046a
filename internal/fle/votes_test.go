package fle

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// TestVotesAreThoseOfThisRound: the votes that a server shows are the trusted ones of
// participants, in the round in which it looks.
func TestVotesAreThoseOfThisRound(t *testing.T) {
	ensemble := Ensemble{Committed: quorum.NewMajority(1, 2, 3)}
	vote := func(from, leader quorum.ID) Received {
		return Received{from, Notification{Vote: Vote{leader, zk.MakeZxid(1, 4), 1}, Round: 1, Version: 2}}
	}
	m := New(Config{ID: 1, FinalizeMs: 200, ResendMinMs: 200, ResendMaxMs: 60_000}, ensemble)
	m.Step(0, Look{zk.MakeZxid(1, 4), 1})
	m.Step(0, vote(3, 2))
	if got, want := m.Votes(), []Cast{{1, 2}, {3, 2}}; !slices.Equal(got, want) {
		t.Fatalf("votes while looking: %v, want %v", got, want)
	}
	m.Step(0, vote(2, 2))
	if got := m.Votes(); m.State() != Following || got != nil {
		t.Fatalf("votes while %v: %v, want none", m.State(), got)
	}
	observer := New(Config{ID: 4, Observer: true, ResendMinMs: 200, ResendMaxMs: 60_000}, ensemble)
	observer.Step(0, Look{zk.MakeZxid(1, 4), 1})
	if got := observer.Votes(); got != nil {
		t.Fatalf("votes of an observer: %v, want none", got)
	}
}
