package raftmodel

import (
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

// A copy of a member behaves like the original from any state on, and both have the same
// hash.
func TestCopiesOfMembersGoOnAlike(t *testing.T) {
	for _, scope := range []Scope{Full, FullLease, FullLinks} {
		model.CheckFaithful(t.Fatalf, New(scope), 300)
	}
}
