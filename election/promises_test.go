package election_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// altered is a store of which a test changes some answers.
type altered struct {
	*electiontest.Store
	renew     func(ctx context.Context, grant election.Grant) (election.Grant, error) // nil: the store's
	releases  int                                                                     // that fail without an effect
	nominated atomic.Int32
}

func (a *altered) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	if ctx.Err() != nil {
		return grant, ctx.Err()
	}
	if a.renew != nil {
		return a.renew(ctx, grant)
	}
	return a.Store.Renew(ctx, grant)
}

func (a *altered) Release(ctx context.Context, grant election.Grant) error {
	if a.releases--; a.releases >= 0 {
		return errors.New("no answer")
	}
	return a.Store.Release(ctx, grant)
}

func (a *altered) Nominate(context.Context, election.Grant, string) error {
	a.nominated.Add(1)
	return election.ErrNoCandidate
}

const promisedLease = 4 * time.Second

// promised is a candidate on a store that a test alters.
func promised(t *testing.T, options election.Options) (*altered, *election.Elector) {
	c := electiontest.VirtualClock(1)
	store := &altered{Store: electiontest.NewStore(c)}
	options.ID, options.Lease, options.Clock = "a", promisedLease, c
	return store, elector(t, store, options)
}

// TestFunctionThatEndsSlowlyKeepsTheElection: after the context of Run has ended, the leadership
// is renewed until the function has ended, so that nobody else leads before.
func TestFunctionThatEndsSlowlyKeepsTheElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, e := promised(t, election.Options{EndLimit: -1})
		ctx, cancel := context.WithCancel(t.Context())
		var acts atomic.Bool
		ended := make(chan error, 1)
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
				acts.Store(true)
				<-ctx.Done()
				time.Sleep(10 * promisedLease)
				if lead.Remaining() == 0 {
					t.Error("its time is over")
				}
				acts.Store(false)
				return nil
			})
		}()
		synctest.Wait()
		cancel()
		other := elector(t, store, election.Options{ID: "b", Once: true, Lease: promisedLease, Clock: e.Options().Clock})
		if err := other.Run(t.Context(), func(context.Context, election.Leadership) error {
			if acts.Load() {
				t.Error("b leads while the function of a runs")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		<-ended
	})
}

// TestRenewalWithAnotherTokenIsALoss: it is not this leadership that was renewed.
func TestRenewalWithAnotherTokenIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, e := promised(t, election.Options{Once: true})
		store.renew = func(ctx context.Context, grant election.Grant) (election.Grant, error) {
			grant, err := store.Store.Renew(ctx, grant)
			grant.Token++
			return grant, err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*promisedLease)
		defer cancel()
		began := time.Now()
		err := e.Run(ctx, func(ctx context.Context, _ election.Leadership) error { <-ctx.Done(); return nil })
		lost := (*election.LostError)(nil)
		if !errors.As(err, &lost) || lost.Reason != election.ReasonTaken || time.Since(began) >= promisedLease {
			t.Errorf("after %v Run returned %v", time.Since(began), err)
		}
	})
}

// TestRequestIsHonouredOnce: a transfer to nobody stays in the store, and is not tried with every
// renewal.
func TestRequestIsHonouredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, e := promised(t, election.Options{Once: true})
		store.renew = func(ctx context.Context, grant election.Grant) (election.Grant, error) {
			grant, err := store.Store.Renew(ctx, grant)
			grant.Request = &election.Request{Token: grant.Token, ID: "1", By: "me", Transfer: "nobody"}
			return grant, err
		}
		if err := e.Run(t.Context(), func(context.Context, election.Leadership) error {
			time.Sleep(10 * promisedLease)
			return nil
		}); err != nil {
			t.Error(err)
		}
		if n := store.nominated.Load(); n != 1 {
			t.Errorf("tried %d times", n)
		}
	})
}

// TestReleaseIsTriedAgain: otherwise others would wait for the rest of the lease.
func TestReleaseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, e := promised(t, election.Options{Once: true})
		store.releases = 3
		led := func(context.Context, election.Leadership) error { return nil }
		if err := e.Run(t.Context(), led); err != nil {
			t.Error(err)
		}
		began := time.Now()
		other := elector(t, store, election.Options{ID: "b", Once: true, Lease: promisedLease, Clock: e.Options().Clock})
		if err := other.Run(t.Context(), led); err != nil || time.Since(began) > promisedLease/4 {
			t.Errorf("b has led after %v: %v", time.Since(began), err)
		}
	})
}

// TestTryThatLeadsLeadsOn though a health check fails, as it would with Run.
func TestTryThatLeadsLeadsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leads, failed atomic.Bool
		_, e := promised(t, election.Options{HealthFailures: 3, HealthEvery: time.Second,
			Health: func(context.Context) error {
				if leads.Load() && !failed.Swap(true) {
					return errors.New("for a moment")
				}
				return nil
			}})
		if err := e.Try(t.Context(), func(ctx context.Context, _ election.Leadership) error {
			leads.Store(true)
			select {
			case <-ctx.Done():
				t.Errorf("told to end: %v", context.Cause(ctx))
			case <-time.After(5 * time.Second):
			}
			return nil
		}); err != nil || !failed.Load() {
			t.Errorf("Try returned %v; a check failed: %v", err, failed.Load())
		}
	})
}

// TestErrorOfAnEarlierLeadershipIsNotThatOfTheRun, which ends while it waits for the next one.
func TestErrorOfAnEarlierLeadershipIsNotThatOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, e := promised(t, election.Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("enough")
		err := e.Run(ctx, func(ctx context.Context, _ election.Leadership) error {
			store.Take("jobs")
			if _, err := store.Acquire(ctx, election.Claim{Election: "jobs", ID: "b", Nonce: "b", Lease: time.Hour}); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			time.AfterFunc(promisedLease, func() { cancel(stop) })
			return errors.New("what I did was cut short")
		})
		if !errors.Is(err, stop) || err.Error() != stop.Error() {
			t.Errorf("Run returned %v", err)
		}
	})
}

// TestLossWhileTheFunctionEndsIsTold: the function takes its time to end, and another one may lead
// already.
func TestLossWhileTheFunctionEndsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		store := &slowRenewal{Store: electiontest.NewStore(c), lost: make(chan struct{})}
		e := elector(t, store, election.Options{ID: "a", Once: true, Lease: promisedLease, Clock: c})
		_ = e.Run(t.Context(), func(ctx context.Context, lead election.Leadership) error {
			lead.Resign()
			<-ctx.Done()
			synctest.Wait()
			close(store.lost)
			synctest.Wait()
			if s := e.Status(); s.State != election.StateLost || s.Reason != election.ReasonTaken {
				t.Errorf("it is %v: %v", s.State, s.Reason)
			}
			return nil
		})
	})
}
