//go:build unix

package supervise

import (
	"errors"
	"testing"

	"github.com/conclave-project/conclave/election"
)

// TestLostLeadershipEndsWithItsCodeWhateverTheStoreSaidLast, because a service
// manager starts a process again that ended with 75.
func TestLostLeadershipEndsWithItsCodeWhateverTheStoreSaidLast(t *testing.T) {
	permanent := election.Permanent(errors.New("refused"))
	for want, err := range map[int]error{
		ExitLost:  &election.LostError{Reason: election.ReasonExpired, Err: permanent},
		ExitError: permanent,
	} {
		if code, _ := new(supervisor).result(err); code != want {
			t.Errorf("%v: code %d, expected %d", err, code, want)
		}
	}
}
