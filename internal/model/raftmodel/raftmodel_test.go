package raftmodel

import (
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

// A member that is copied in any state goes on like the original, and both have
// one hash.
func TestCopiesOfMembersGoOnAlike(t *testing.T) {
	for _, scope := range []Scope{Full, FullLease, FullLinks} {
		model.CheckFaithful(t.Fatalf, New(scope), 300)
	}
}
