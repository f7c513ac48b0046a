package command

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// TestEventAfterTheEndOfARunIsDropped has a second signal end a run while the store is being asked
// to release. The backend is then closed, so the release fails at that moment.
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
