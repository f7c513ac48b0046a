package election_test

import (
	"context"
	"errors"
	"testing"
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
