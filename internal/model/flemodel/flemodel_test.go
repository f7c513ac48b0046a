package flemodel

import (
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

// A copy of a server behaves like the original from any state on, and both have the same
// hash at all times.
func TestCopiesOfServersGoOnAlike(t *testing.T) {
	model.CheckFaithful(t.Fatalf, New(Full), 400)
}
