//go:build unix

package supervise

import (
	"errors"
	"testing"

	"github.com/conclave-project/conclave/election"
)

// TestLostLeadershipEndsWithItsCodeWhateverTheStoreSaidLast: a service manager starts
// what ended with 75 again.
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
