package holders

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// TestWriterWhosePlaceIsGoneDoesNotAct (holders-W1): the place was lost after all were held and
// before the function was called.
func TestWriterWhosePlaceIsGoneDoesNotAct(t *testing.T) {
	gone := election.Leadership{} // not held
	w := newWriting(t.Context(), gone, 1)
	w.take(0, gone)
	<-w.all
	w.act(func(context.Context, Held) error {
		t.Error("it acts")
		return nil
	})
	if w.acted {
		t.Error("it counts as a writer that has acted")
	}
}

// TestWriterKeepsItsPlacesUntilItHasEnded (holders-W1), even if it goes on long after the context
// of Write has ended: its places are renewed, so nobody else acts.
func TestWriterKeepsItsPlacesUntilItHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 4 * time.Second
		c := electiontest.VirtualClock(1)
		store := electiontest.NewStore(c)
		lock := func(id string) *RWLock {
			l, err := NewRWLock(store, "x", 2, election.Options{ID: id, Lease: lease, Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		ctx, cancel := context.WithCancel(t.Context())
		acts, ended := make(chan struct{}), make(chan struct{})
		var writes atomic.Bool
		go func() {
			defer close(ended)
			_ = lock("writer").Write(ctx, func(ctx context.Context, _ Held) error {
				writes.Store(true)
				close(acts)
				<-ctx.Done()
				time.Sleep(10 * lease)
				writes.Store(false)
				return nil
			})
		}()
		<-acts
		cancel()
		if err := lock("reader").Read(t.Context(), func(context.Context, Held) error {
			if writes.Load() {
				t.Error("it reads while another one writes")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		<-ended
	})
}
