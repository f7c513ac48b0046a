package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// restartLimit is how long a leadership with a restart of the store may take.
const restartLimit = time.Minute

// RestartWhileLeading restarts the store while a candidate of the first backend leads. It
// must continue to lead for longer than its lease, and no candidate of the second backend
// may be elected meanwhile.
func RestartWhileLeading(t *testing.T, first, second election.Backend, lease time.Duration, restart func(context.Context) error) {
	t.Helper()
	elector, other := newElector(t, first, "a", lease), newElector(t, second, "b", lease)
	var leaders counted
	var group sync.WaitGroup
	restarted := make(chan struct{})
	ctx, cancel := context.WithTimeout(context.Background(), restartLimit)
	defer cancel()
	err := elector.Run(ctx, leaders.lead(func(leading context.Context) {
		group.Go(func() {
			<-restarted
			if err := other.Run(ctx, leaders.lead(func(context.Context) {})); err != nil {
				t.Error(err)
			}
		})
		if err := restart(ctx); err != nil {
			t.Error(err)
		}
		close(restarted)
		select {
		case <-leading.Done():
			t.Errorf("the leader lost the election: %v", context.Cause(leading))
		case <-time.After(lease + time.Second): // so the leader has renewed
		}
	}))
	if err != nil {
		t.Error(err)
	}
	group.Wait()
	if most := leaders.most.Load(); most != 1 {
		t.Errorf("%d led at once", most)
	}
}

// counted counts the current leaders, and the most there ever were at the same time.
type counted struct{ now, most atomic.Int64 }

// lead returns a function for Run that is counted as a leader while it works.
func (c *counted) lead(work func(context.Context)) func(context.Context, election.Leadership) error {
	return func(ctx context.Context, _ election.Leadership) error {
		c.most.Store(max(c.most.Load(), c.now.Add(1)))
		defer c.now.Add(-1)
		work(ctx)
		return nil
	}
}

func newElector(t testing.TB, b election.Backend, id string, lease time.Duration) *election.Elector {
	t.Helper()
	e, err := election.New(b, "e", election.Options{Once: true, ID: id, Lease: lease, Retry: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return e
}
