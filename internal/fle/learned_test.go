package fle

import (
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

func learnedIn(effects []Effect) (all []Learned) {
	for _, e := range effects {
		if l, ok := e.(Learned); ok {
			all = append(all, l)
		}
	}
	return all
}

// TestProposalOfAPeerIsLearnedOnce: of participants of the configuration in force, while this
// server looks, and once in an election.
func TestProposalOfAPeerIsLearnedOnce(t *testing.T) {
	m := New(Config{ID: 1, FinalizeMs: 200, ResendMinMs: 200, ResendMaxMs: 60_000},
		Ensemble{Committed: quorum.NewMajority(1, 2, 3), Version: 5})
	says := func(from quorum.ID, version int64) []Learned {
		t.Helper()
		n := Notification{Vote: Vote{1, zk.MakeZxid(1, 4), 1}, Round: 1, Version: 2, Proposed: "text", ProposedVersion: version}
		return learnedIn(m.Step(0, Received{from, n}))
	}
	want := Learned{2, 9, "text"}
	if got := says(2, 9); got != nil {
		t.Fatalf("before the first election: %v", got)
	}
	// The one that was received before is handled again, now that the server looks.
	if got := learnedIn(m.Step(0, Look{zk.MakeZxid(1, 4), 1})); len(got) != 1 || got[0] != want {
		t.Fatalf("at the start: %v, want %v", got, want)
	}
	if again, older, stranger := says(2, 9), says(2, 5), says(4, 10); again != nil || older != nil || stranger != nil {
		t.Fatalf("said again %v, in force already %v, of a stranger %v", again, older, stranger)
	}
	if got := says(3, 10); len(got) != 1 {
		t.Fatalf("a newer one is not learned: %v", got)
	}
	if m.State() == Looking {
		t.Fatal("three of three servers vote, and there is no leader")
	}
	if got := says(3, 11); got != nil {
		t.Fatalf("while %v: %v", m.State(), got)
	}
}

// TestLearnedServersVoteAndNothingWaitsForThem (fle-F9): a server of a configuration that only
// a peer has is elected by a quorum of the configuration in force, and a round without a
// decision ends, as in any change of the ensemble.
func TestLearnedServersVoteAndNothingWaitsForThem(t *testing.T) {
	ensemble := Ensemble{Committed: quorum.NewMajority(1, 2, 3), Learned: quorum.NewMajority(4, 5, 6)}
	m := New(Config{ID: 1, ResendMinMs: 200, ResendMaxMs: 60_000}, ensemble)
	m.Step(0, Look{zk.MakeZxid(1, 4), 1})
	m.Step(roundResends*200-1, Tick{})
	if m.Round() != 1 {
		t.Fatalf("round %d before the end of the first", m.Round())
	}
	m.Step(roundResends*200, Tick{})
	m.Step(2*roundResends*200, Tick{})
	if m.Round() != 3 { // 3 is a round in which the history alone counts
		t.Fatalf("round %d, want 3: the rounds do not end", m.Round())
	}
	best := Vote{4, zk.MakeZxid(2, 1), 2}
	for _, from := range []quorum.ID{4, 5, 6} {
		m.Step(4000, Received{from, Notification{Vote: best, Round: 3, Version: 2}})
	}
	if m.Vote() != best || m.State() != Looking {
		t.Fatalf("%v for %v, without a quorum of the configuration in force", m.State(), m.Vote())
	}
	m.Step(4000, Received{2, Notification{Vote: best, Round: 3, Version: 2}})
	if m.State() != Following {
		t.Fatalf("%v, with votes of a quorum", m.State())
	}
}
