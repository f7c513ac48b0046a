package flemodel

import (
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

// A server that is copied in any state goes on like the original, and both have
// one hash, whenever it is.
func TestCopiesOfServersGoOnAlike(t *testing.T) {
	model.CheckFaithful(t.Fatalf, New(Full), 400)
}
