package election_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// The function returns the cause of its context, which is no error of its own.
func TestTransferIsNoErrorOfTheFunction(t *testing.T) {
	store := newChoosy()
	e := elector(t, store, election.Options{Once: true, ID: "a"})
	ended := leading(t, e)
	go func() { <-store.asked; store.outcome <- nil }()
	if err := e.TransferTo(awaittest.Within(t), "b"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v after a transfer, nil is promised", err)
	}
}

// hopeless refuses for good, and does not release.
type hopeless struct {
	*electiontest.Store
	acquired chan struct{}
}

func (h hopeless) Acquire(context.Context, election.Claim) (election.Grant, error) {
	close(h.acquired)
	return election.Grant{}, election.Permanent(errors.New("no right"))
}

func (h hopeless) Release(ctx context.Context, _ election.Grant) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestPermanentFailureIsNotForgotten(t *testing.T) {
	store := hopeless{electiontest.NewStore(nil), make(chan struct{})}
	e := elector(t, store, election.Options{Once: true, ID: "a", Lease: time.Second, HealthEvery: 20 * time.Millisecond,
		Health: func(context.Context) error {
			select {
			case <-store.acquired:
				return errors.New("sick")
			default:
				return nil
			}
		}})
	err := e.Run(awaittest.Within(t), func(context.Context, election.Leadership) error { return nil })
	if !errors.Is(err, election.ErrPermanent) {
		t.Errorf("Run returned %v, which is no ErrPermanent", err)
	}
}

// TestRunThatWouldGoOnEndsWithTheCauseOfItsContext, however the leadership has ended, even
// if the store has not answered the release when Run is told to end.
func TestRunThatWouldGoOnEndsWithTheCauseOfItsContext(t *testing.T) {
	told := errors.New("told to end")
	for name, end := range map[string]func(context.Context, election.Leadership){
		"returned": func(context.Context, election.Leadership) {},
		"resigned": func(_ context.Context, lead election.Leadership) { lead.Resign() },
		"lost":     func(ctx context.Context, _ election.Leadership) { <-ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := electiontest.VirtualClock(1)
				store := electiontest.NewFaulty(electiontest.NewStore(c))
				ctx, cancel := context.WithCancelCause(awaittest.Within(t))
				e := elector(t, store, election.Options{Clock: c})
				err := e.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
					store.Cut()
					end(ctx, lead)
					time.AfterFunc(time.Millisecond, func() { cancel(told) })
					return nil
				})
				if !errors.Is(err, told) || errors.Is(err, election.ErrLost) {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
}

// TestReleaseThatFailsIsTold even if the run ends with it: others must wait for the lease.
func TestReleaseThatFailsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := electiontest.VirtualClock(1), &log{}
		store := electiontest.NewFaulty(electiontest.NewStore(c))
		e := elector(t, store, election.Options{Once: true, Clock: c, OnEvent: l.add})
		err := e.Run(awaittest.Within(t), func(context.Context, election.Leadership) error {
			store.Cut()
			return nil
		})
		if told := l.count(election.EventReleaseFailed); err != nil || told != 1 {
			t.Errorf("Run returned %v, a failed release was told %d times: %v", err, told, l.kinds())
		}
	})
}

// TestRunWhoseContextHasEndedDoesNotLead even if the store grants at the moment at which
// Run is told to end. That depends on chance, so it is tried often.
func TestRunWhoseContextHasEndedDoesNotLead(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	e := elector(t, electiontest.NewStore(nil), election.Options{Once: true})
	for range 5_000 {
		err := e.Run(ended, func(context.Context, election.Leadership) error {
			t.Error("it leads")
			return nil
		})
		if !errors.Is(err, context.Canceled) || t.Failed() {
			t.Fatalf("Run returned %v", err)
		}
	}
}
