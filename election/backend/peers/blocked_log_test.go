package peers_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/peers"
)

// A log that nobody reads (a full pipe) must neither stop the member that
// leads, nor keep calls from returning when their contexts end.
func TestBlockedLogHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	var blocked atomic.Bool
	gate := make(chan struct{})
	i := 0
	g := found(t, 3, func(o *peers.Options) {
		patient(o)
		if i == 0 {
			o.Log = func(text string) {
				if blocked.Load() && strings.Contains(text, "lost") {
					<-gate
				}
			}
		}
		i++
	})
	t.Cleanup(func() { close(gate) }) // before the members are closed
	grant := acquire(t, g[0], claim("jobs", "leader", 0))
	blocked.Store(os.Getenv("REVIEW_CONTROL") == "")
	_ = g[2].Close() // one follower goes; a quorum is left
	deadline := time.Now().Add(3 * longer / 2)
	for time.Now().Before(deadline) {
		ctx, cancel := context.WithTimeout(t.Context(), longer)
		type answer struct {
			grant election.Grant
			err   error
		}
		answered := make(chan answer, 1)
		go func() { g, err := g[0].Renew(ctx, grant); answered <- answer{g, err} }()
		select {
		case a := <-answered:
			if a.err != nil {
				t.Errorf("the leader has a quorum, and its renewal failed: %v", a.err)
				break
			}
			grant = a.grant
		case <-time.After(2 * longer):
			cancel()
			t.Fatalf("Renew has not returned %v after its context ended, because Log does not", longer)
		}
		cancel()
	}
}
