package electormodel

import (
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

// A candidate that is copied in any state goes on like the original, and both have
// one hash.
func TestCopiesOfCandidatesGoOnAlike(t *testing.T) {
	for _, scope := range []Scope{Full, FullResign, FullLinks, FullFailover, FullParts} {
		model.CheckFaithful(t.Fatalf, New(scope), 200)
	}
}
