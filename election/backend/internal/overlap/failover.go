//go:build linux

package overlap

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Server is one server of a store's cluster.
type Server interface {
	Pause()
	Resume()
	Restart(ctx context.Context) error
}

// failoverEvery is how many elections there are between two failovers of the store.
const failoverEvery = 4

// Failovers returns a function for Shared.Leads that alternately freezes the leader of the
// store for the pause, and kills it. Only one failover runs at a time, because the store
// needs a majority.
func Failovers(t *testing.T, pause time.Duration, leader func() Server) func(number int) {
	var failover sync.WaitGroup
	t.Cleanup(failover.Wait)
	return func(number int) {
		if number%failoverEvery != failoverEvery/2 {
			return
		}
		failover.Wait()
		server := leader()
		failover.Go(func() {
			if number%(2*failoverEvery) == failoverEvery/2 {
				server.Pause()
				time.Sleep(pause)
				server.Resume()
			} else if err := server.Restart(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
