package electormodel

import (
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

func TestElectorHoldsInTheSmallScope(t *testing.T) {
	r := model.Explore(New(Small), model.Limits{})
	if r.Violation != nil {
		t.Fatalf("%s\n%s", r.Violation.Wrong, r.Violation.Trace)
	}
	if r.Unfinished != "" || r.States < 1000 {
		t.Fatalf("%d states, %s", r.States, r.Unfinished)
	}
	t.Logf("%d states, depth %d, %v", r.States, r.Depth, r.Took)
}

func TestMutantsAreFound(t *testing.T) {
	for _, m := range Mutants {
		t.Run(string(m.Mutant), func(t *testing.T) {
			t.Parallel()
			r := model.Explore(New(Held.WithMutant(m.Mutant)), model.Limits{})
			if r.Violation == nil {
				t.Fatalf("not found in %d states", r.States)
			}
			t.Logf("%s: %s, after %d states in %v, depth %d", m.Mutant, r.Violation.Wrong, r.States, r.Took, r.Depth)
		})
	}
}

// A candidate that is copied in any state goes on like the original, and both have
// one hash.
func TestCopiesOfCandidatesGoOnAlike(t *testing.T) { model.CheckFaithful(t.Fatalf, New(Full), 400) }
