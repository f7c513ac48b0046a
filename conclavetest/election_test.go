package conclavetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// Candidates that never stop campaign on servers whose leader is killed again and
// again. Two of them never lead at the same time, and the token only grows.
func TestElectionsSurviveTheServersLeaders(t *testing.T) {
	e := Start(t)
	ctx, stop := context.WithCancel(awaittest.Within(t))
	defer stop()
	var leading, leaderships atomic.Int32
	var token atomic.Uint64
	ended := make(chan error, 3)
	for i := range 3 {
		backend, err := zookeeper.New(e.Servers(), zookeeper.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = backend.Close() })
		elector, err := election.New(backend, "demo", election.Options{ID: fmt.Sprint(i), Lease: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			ended <- elector.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
				if leading.Add(1) != 1 {
					t.Error("two lead at a time")
				}
				defer leading.Add(-1)
				if last := token.Swap(uint64(lead.Token())); last >= uint64(lead.Token()) {
					t.Errorf("token %d after %d", lead.Token(), last)
				}
				leaderships.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
				return nil
			})
		}()
	}
	for range 3 {
		before := leaderships.Load()
		e.poll("three leaderships", func() bool { return leaderships.Load() >= before+3 })
		killed := e.Leader()
		e.Kill(killed)
		before = leaderships.Load()
		e.poll("a leadership while a server is down", func() bool { return leaderships.Load() > before })
		e.Restart(killed)
		e.WaitSynced()
	}
	stop()
	for range 3 {
		<-ended
	}
}

func TestMinutesPassWithoutAnElection(t *testing.T) {
	e := Start(t, longTicks)
	c := e.Client(t, func(o *client.Options) { o.SessionTimeout = 5 * time.Minute })
	leader := e.Leader()
	start := time.Now()
	e.Advance(time.Hour)
	t.Logf("took %v", time.Since(start))
	if now := e.Leader(); now != leader {
		t.Errorf("server %d leads instead of server %d", now, leader)
	}
	if err := c.Sync(awaittest.Within(t), "/"); err != nil {
		t.Error(err)
	}
}
