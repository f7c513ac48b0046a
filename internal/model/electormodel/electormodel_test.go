package electormodel

import (
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

// A copy of a candidate behaves like the original from any state on, and both have the same
// hash.
func TestCopiesOfCandidatesGoOnAlike(t *testing.T) {
	for _, scope := range []Scope{Full, FullResign, FullLinks, FullFailover, FullParts} {
		model.CheckFaithful(t.Fatalf, New(scope), 200)
	}
}
