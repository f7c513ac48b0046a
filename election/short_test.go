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
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestShortEndLimitIsNotWithoutEnd: only a negative one is.
func TestShortEndLimitIsNotWithoutEnd(t *testing.T) {
	stuck := make(chan struct{}, 1)
	e := elector(t, electiontest.NewStore(nil), election.Options{Once: true, ID: "a", Lease: time.Second, EndLimit: 900 * time.Microsecond,
		OnStuck: func(election.Leadership) { stuck <- struct{}{} }})
	leads, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Run(awaittest.Within(t), func(context.Context, election.Leadership) error { close(leads); <-free; return nil })
	}()
	<-leads
	go func() { _ = e.Resign(awaittest.Within(t)) }()
	select {
	case <-stuck:
	case <-time.After(10 * time.Second):
		t.Error("a function that does not end is not reported")
	}
	close(free)
	<-done
}

// TestNegativeEndLimitIsWithoutEnd: a function that continues for longer than a lease is
// not reported, and keeps the election.
func TestNegativeEndLimitIsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		const lease = 200 * time.Millisecond
		var ending, renewed atomic.Int64
		kept := make(chan struct{})
		e := elector(t, electiontest.NewStore(c), election.Options{Once: true, ID: "a", Lease: lease, EndLimit: -1, Clock: c,
			OnEvent: func(e election.Event) {
				switch {
				case e.Kind == election.EventEnding:
					ending.Store(time.Now().UnixNano())
				case e.Kind == election.EventStuck, e.Kind == election.EventLost && renewed.Load() < 10:
					t.Errorf("%v after %d renewals", e.Kind, renewed.Load())
				case e.Kind == election.EventRenewed && ending.Load() != 0:
					if renewed.Add(1) == 10 { // more than two leases
						close(kept)
					}
				}
			}})
		leads, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			_ = e.Run(awaittest.Within(t), func(context.Context, election.Leadership) error { close(leads); <-kept; return nil })
		}()
		<-leads
		go func() { _ = e.Resign(awaittest.Within(t)) }()
		select {
		case <-kept:
		case <-time.After(10 * time.Second):
			t.Fatalf("%d renewals while the function ends", renewed.Load())
		}
		<-done
	})
}

// denying is a store that refuses every claim, and counts them.
type denying struct {
	election.Backend
	claims atomic.Int64
}

func (r *denying) Acquire(context.Context, election.Claim) (election.Grant, error) {
	r.claims.Add(1)
	return election.Grant{}, errors.New("not now")
}

// TestShortRetryIsNotWithoutAPause: a millisecond is the least.
func TestShortRetryIsNotWithoutAPause(t *testing.T) { synctest.Test(t, shortRetryIsNotWithoutAPause) }

func shortRetryIsNotWithoutAPause(t *testing.T) {
	c := electiontest.VirtualClock(1)
	store := &denying{Backend: electiontest.NewStore(c)}
	e, err := election.New(store, "jobs", election.Options{ID: "a", Lease: time.Second, Retry: time.Nanosecond, RetryMax: time.Nanosecond, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = e.Run(ctx, func(context.Context, election.Leadership) error { return nil })
	if most := time.Since(began).Milliseconds() + 2; store.claims.Load() > most {
		t.Errorf("%d claims in %v", store.claims.Load(), time.Since(began))
	}
}
