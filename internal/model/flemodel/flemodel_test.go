package flemodel

import (
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

func TestElectionsHoldInTheSmallScopes(t *testing.T) {
	for _, scope := range []Scope{Small, SmallFive, SmallJoin, SmallReplace} {
		t.Run(scope.Text, func(t *testing.T) {
			t.Parallel()
			r := model.Explore(New(scope), model.Limits{})
			if r.Violation != nil {
				t.Fatalf("%s\n%s", r.Violation.Wrong, r.Violation.Trace)
			}
			if r.Unfinished != "" || r.States < 5000 {
				t.Fatalf("%d states, %s", r.States, r.Unfinished)
			}
			t.Logf("%d states, depth %d, %v", r.States, r.Depth, r.Took)
		})
	}
}

// Each known bug is found in a small scope; the stall of a deaf leader takes half
// a minute, and `conclave model --mutants` looks for it as well.
func TestMutantsAreFound(t *testing.T) {
	for mutant, scope := range map[Mutant]Scope{
		JoinsSilently: Stalls, NobodyIsZero: Small, RoundJump: Small, DoubtUnsaid: Small,
	} {
		t.Run(string(mutant), func(t *testing.T) {
			t.Parallel()
			r := model.Explore(New(scope.WithMutant(mutant)), model.Limits{})
			if r.Violation == nil {
				t.Fatalf("not found in %d states", r.States)
			}
			t.Logf("%s: %s, after %d states in %v, depth %d", mutant, r.Violation.Wrong, r.States, r.Took, r.Depth)
		})
	}
}

// A server that is copied in any state goes on like the original, and both have
// one hash, whenever it is.
func TestCopiesOfServersGoOnAlike(t *testing.T) {
	model.CheckFaithful(t.Fatalf, New(Full), 400)
}
