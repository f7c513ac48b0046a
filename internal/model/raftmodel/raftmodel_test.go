package raftmodel

import (
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

func TestRaftHoldsInTheSmallScopes(t *testing.T) {
	for _, scope := range []Scope{Small, SmallLease, SmallLinks} {
		t.Run(scope.Text, func(t *testing.T) {
			t.Parallel()
			r := model.Explore(New(scope), model.Limits{})
			if r.Violation != nil {
				t.Fatalf("%s\n%s", r.Violation.Wrong, r.Violation.Trace)
			}
			if r.Unfinished != "" || r.States < 1000 {
				t.Fatalf("%d states, %s", r.States, r.Unfinished)
			}
			t.Logf("%d states, depth %d, %v", r.States, r.Depth, r.Took)
		})
	}
}

// The others need a million states: `conclave model --mutants` looks for them.
func TestMutantsAreFound(t *testing.T) {
	for _, m := range []Mutant{VoteForgotten, VotesTwice, NoDrift} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			_, scope := ScopeOf(m)
			r := model.Explore(New(scope), model.Limits{})
			if r.Violation == nil {
				t.Fatalf("not found in %d states", r.States)
			}
			t.Logf("%s: %s, after %d states in %v, depth %d", m, r.Violation.Wrong, r.States, r.Took, r.Depth)
		})
	}
}

// A member that is copied in any state goes on like the original, and both have
// one hash.
func TestCopiesOfMembersGoOnAlike(t *testing.T) {
	for _, scope := range []Scope{Full, FullLease, FullLinks} {
		model.CheckFaithful(t.Fatalf, New(scope), 300)
	}
}
