package record_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/bubble"
)

const tryLease = 15 * time.Second

// process is a candidate in a process of its own, with a backend that has seen nothing.
func process(t *testing.T, c clock.Clock, store record.Store, id string) (*record.Backend, *election.Elector) {
	t.Helper()
	backend := record.New(store, record.Options{Clock: c})
	t.Cleanup(func() { _ = backend.Close() })
	e, err := election.New(backend, "e", election.Options{ID: id, Lease: tryLease, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	return backend, e
}

// TestTryOfANewProcessLeadsAfterADeadLeader, and after a dead candidate that waited: jobs that
// cron starts each run in a process of their own, and count a lease from their first look.
func TestTryOfANewProcessLeadsAfterADeadLeader(t *testing.T) {
	for _, died := range []string{"the leader", "one that waited"} {
		t.Run(died, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.Clock(1)
				store := record.NewMemory(c)
				backend, _ := process(t, c, store, "dead")
				grant, err := backend.Acquire(t.Context(), election.Claim{Election: "e", ID: "dead", Nonce: "dead", Lease: tryLease})
				if err != nil {
					t.Fatal(err)
				}
				if died == "one that waited" {
					waiting, kill := context.WithCancel(t.Context())
					lost := record.New(forgetful{store, waiting}, record.Options{Clock: c})
					t.Cleanup(func() { _ = lost.Close() })
					go func() {
						_, _ = lost.Acquire(waiting, election.Claim{Election: "e", ID: "waits", Nonce: "waits", Lease: tryLease})
					}()
					time.Sleep(tryLease / 5)
					kill()
					synctest.Wait()
					if err := backend.Release(t.Context(), grant); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Hour)
				began, led := time.Now(), false
				_, e := process(t, c, store, "job")
				err = e.Try(t.Context(), func(context.Context, election.Leadership) error {
					led = true
					return nil
				})
				if waited := time.Since(began); err != nil || !led || waited > tryLease+time.Second {
					t.Errorf("after %v: led %t, %v", waited, led, err)
				}
			})
		})
	}
}

// forgetful is the store of a process that writes nothing more after its end.
type forgetful struct {
	record.Store
	life context.Context
}

func (f forgetful) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	if f.life.Err() != nil {
		return "", errors.New("it was killed")
	}
	return f.Store.Write(ctx, name, r, version)
}

// TestTryOfANewProcessEndsWhenItSeesTheLeaderRenew, and does not wait as a candidate in the
// meantime: the leader would hand over to a candidate of a higher priority.
func TestTryOfANewProcessEndsWhenItSeesTheLeaderRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.Clock(1)
		store := record.NewMemory(c)
		_, leader := process(t, c, store, "leader")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- leader.Run(ctx, func(ctx context.Context, _ election.Leadership) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(time.Minute)
		_, e := process(t, c, store, "job")
		for i := range 2 {
			began, held := time.Now(), (*election.HeldError)(nil)
			err := e.Try(t.Context(), func(context.Context, election.Leadership) error { t.Error("it leads"); return nil })
			if waited := time.Since(began); !errors.As(err, &held) || held.View.Leader != "leader" || held.View.Unconfirmed ||
				waited > tryLease/2 || i > 0 && waited > 0 || len(held.View.Waiters) > 0 {
				t.Errorf("after %v: %+v", waited, err)
			}
		}
		_, hasty := process(t, c, store, "hasty")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := hasty.Try(short, func(context.Context, election.Leadership) error { t.Error("it leads"); return nil }); !errors.Is(err, election.ErrHeld) {
			t.Errorf("without time: %v", err)
		}
		stop()
		<-ended
	})
}

// TestWaitLeaderOfANewProcessShowsNoDeadLeader: the leader that it shows has renewed since, or
// was elected.
func TestWaitLeaderOfANewProcessShowsNoDeadLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.Clock(1)
		store := record.NewMemory(c)
		backend, _ := process(t, c, store, "dead")
		if _, err := backend.Acquire(t.Context(), election.Claim{Election: "e", ID: "dead", Nonce: "dead", Lease: tryLease}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		_, observer := process(t, c, store, "observer")
		short, cancel := context.WithTimeout(t.Context(), tryLease/2)
		defer cancel()
		if view, err := observer.WaitLeader(short); !errors.Is(err, context.DeadlineExceeded) || view.Leader != "dead" || !view.Unconfirmed {
			t.Errorf("while its lease may last: %+v, %v", view, err)
		}
		_, next := process(t, c, store, "next")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- next.Run(ctx, func(ctx context.Context, _ election.Leadership) error { <-ctx.Done(); return nil })
		}()
		_, late := process(t, c, store, "late")
		for _, e := range []*election.Elector{observer, late} {
			if view, err := e.WaitLeader(t.Context()); err != nil || view.Leader != "next" {
				t.Errorf("%s is shown %q, %v", e.ID(), view.Leader, err)
			}
		}
		stop()
		<-ended
	})
}
