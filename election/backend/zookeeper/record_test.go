package zookeeper

import (
	"testing"

	"github.com/conclave-project/conclave/election"
)

// TestHistoryOfANewLeaderKeepsWhatIsAskedOfIt: the first waiter is seen to lead
// before it has written to the history, and requests to it may arrive before that.
func TestHistoryOfANewLeaderKeepsWhatIsAskedOfIt(t *testing.T) {
	for _, test := range []struct {
		asked election.Token
		kept  bool
	}{{6, false}, {7, true}} {
		b := record{Conclave: recordForm, Request: &election.Request{Token: test.asked}}.of(7, nil)
		if kept := b.Request != nil; kept != test.kept {
			t.Errorf("a request of token %d is kept by the leader with token 7: %v", test.asked, kept)
		}
	}
}
