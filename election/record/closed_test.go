package record_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
)

// TestCloseEndsWhatIsUnderWay: a leader leads for no longer than its lease, and nobody
// continues to ask a store that is closed.
func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, lease := electiontest.VirtualClock(1), 10*time.Second
		store := record.NewMemory(c)
		b := record.New(store, record.Options{Clock: c})
		elector := func(b election.Backend, name, id string) *election.Elector {
			e, err := election.New(b, name, election.Options{ID: id, Lease: lease, Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		ended, calls := make(chan error), 0
		call := func(what func(ctx context.Context) error) {
			calls++
			go func() { ended <- what(t.Context()) }()
		}
		lead := func(ctx context.Context, _ election.Leadership) error { <-ctx.Done(); return nil }
		leader := elector(b, "x", "leader")
		call(func(ctx context.Context) error { return leader.Run(ctx, lead) })
		time.Sleep(time.Second)
		call(func(ctx context.Context) error { return elector(b, "x", "waiter").Run(ctx, lead) })
		call(func(ctx context.Context) error {
			_, err := elector(b, "nobody", "waiter").WaitLeader(ctx)
			return err
		})
		time.Sleep(time.Second)
		if !leader.IsLeader() {
			t.Fatal("nobody leads")
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		closed := time.Now()
		call(func(ctx context.Context) error { return elector(b, "y", "late").Run(ctx, lead) })
		call(func(ctx context.Context) error { _, err := b.Elections(ctx); return err })
		for range calls {
			if err := <-ended; !errors.Is(err, election.ErrClosed) || !errors.Is(err, election.ErrPermanent) {
				t.Errorf("it ends with %v", err)
			}
		}
		if d := time.Since(closed); d > 2*lease {
			t.Errorf("all has ended %v after Close", d)
		}
		next := record.New(store, record.Options{Clock: c})
		defer next.Close()
		ctx, end := context.WithTimeout(t.Context(), 3*lease)
		defer end()
		_ = elector(next, "x", "next").Run(ctx, func(context.Context, election.Leadership) error { closed = time.Time{}; end(); return nil })
		if !closed.IsZero() {
			t.Error("nobody leads three leases later")
		}
	})
}
