package command

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// TestEventAfterTheEndOfARunIsDropped: a second signal ends a run while the store is asked to
// release, and its backend is closed, so that the release fails at that moment.
func TestEventAfterTheEndOfARunIsDropped(t *testing.T) {
	var said strings.Builder
	r := newReporter(&said, false, time.Second)
	r.event(election.Event{Kind: election.EventCampaigning, Election: "jobs"})
	r.close()
	r.event(election.Event{Kind: election.EventReleaseFailed, Election: "jobs", Err: errors.New("closed")})
	if said.String() != "conclave: jobs: waiting\n" {
		t.Errorf("it said %q", said.String())
	}
}
