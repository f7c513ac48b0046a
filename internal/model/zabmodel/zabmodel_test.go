package zabmodel

import (
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

func TestZabHoldsInTheSmallScopes(t *testing.T) {
	for _, scope := range []Scope{Small, SmallLinks, SmallDisk, SmallReconfig, SmallSnapshot} {
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

// Each known bug is found by what it does to clients, not by the rule it breaks.
func TestMutantsAreFound(t *testing.T) {
	for _, m := range Mutants {
		t.Run(string(m.Mutant), func(t *testing.T) {
			t.Parallel()
			_, scope := ScopeOf(m.Mutant)
			r := model.Explore(New(scope), model.Limits{})
			if r.Violation == nil {
				t.Fatalf("not found in %d states", r.States)
			}
			t.Logf("%s: %s, after %d states in %v, depth %d", m.Mutant, r.Violation.Wrong, r.States, r.Took, r.Depth)
		})
	}
}

// A server that is copied in any state goes on like the original, and both have
// one hash.
func TestCopiesOfServersGoOnAlike(t *testing.T) {
	for _, scope := range []Scope{FullLinks, FullReconfig, FullSnapshot} {
		model.CheckFaithful(t.Fatalf, New(scope), 300)
	}
}

// Exchanging servers is no difference: every exchange of a state has its hash.
func TestServersAreAlike(t *testing.T) {
	scope := Small
	scope.Starts = []Start{{Logs: []int{1, 2, 2}, Shown: 1}, {Logs: []int{2, 1, 2}, Shown: 1}, {Logs: []int{2, 2, 1}, Shown: 1}}
	scope.Elections, scope.Crashes = 0, 0
	if r := model.Explore(New(scope), model.Limits{}); r.States != 1 {
		t.Fatalf("%d first states that differ in the names of servers alone", r.States)
	}
}
