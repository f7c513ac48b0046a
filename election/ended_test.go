package election_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// forbids refuses every renewal for good.
type forbids struct{ election.Backend }

var errForbidden = errors.New("403")

func (forbids) Renew(_ context.Context, g election.Grant) (election.Grant, error) {
	return g, election.Permanent(errForbidden)
}

// An error that was permanent for one leadership is not permanent for the candidate.
func TestLostLeadershipIsNoPermanentFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := electiontest.VirtualClock(1)
		e, err := election.New(forbids{electiontest.NewStore(clock)}, "e",
			election.Options{ID: "a", Lease: time.Second, Once: true, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Run(t.Context(), func(ctx context.Context, _ election.Leadership) error { <-ctx.Done(); return nil })
		var lost *election.LostError
		if !errors.As(err, &lost) || !errors.Is(err, errForbidden) || errors.Is(err, election.ErrPermanent) {
			t.Errorf("%v: lost %v, forbidden %v, permanent %v", err, lost != nil, errors.Is(err, errForbidden),
				errors.Is(err, election.ErrPermanent))
		}
	})
}

// slowRenewal answers a renewal when it is told to.
type slowRenewal struct {
	*electiontest.Store
	asked, answer, lost chan struct{}
	ended               election.Reason
}

func (s *slowRenewal) Acquire(ctx context.Context, c election.Claim) (election.Grant, error) {
	grant, err := s.Store.Acquire(ctx, c)
	grant.Lost = s.lost
	return grant, err
}

func (s *slowRenewal) Renew(ctx context.Context, g election.Grant) (election.Grant, error) {
	renewed, err := s.Store.Renew(context.WithoutCancel(ctx), g)
	s.asked <- struct{}{}
	<-s.answer
	return renewed, err
}

func (s *slowRenewal) Release(ctx context.Context, g election.Grant) error {
	s.ended = g.Ended
	return s.Store.Release(ctx, g)
}

// The history says why a leadership has ended, even if a renewal is answered later.
func TestLateRenewalLeavesTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := electiontest.VirtualClock(1)
		store := &slowRenewal{Store: electiontest.NewStore(clock), asked: make(chan struct{}, 9),
			answer: make(chan struct{}), lost: make(chan struct{})}
		var kinds []election.EventKind
		e, err := election.New(store, "e", election.Options{ID: "a", Lease: time.Second, Once: true, Clock: clock,
			OnEvent: func(e election.Event) { kinds = append(kinds, e.Kind) }})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Run(t.Context(), func(ctx context.Context, _ election.Leadership) error {
			<-store.asked
			close(store.lost)
			<-ctx.Done()
			close(store.answer)
			synctest.Wait()
			return nil
		})
		synctest.Wait()
		if !errors.Is(err, election.ErrLost) || store.ended != election.ReasonTaken {
			t.Errorf("%v: released as %v", err, store.ended)
		}
		if at := slices.Index(kinds, election.EventLost); at < 0 || slices.Contains(kinds[at:], election.EventRenewed) {
			t.Errorf("told %v", kinds)
		}
	})
}

// A leadership may end before a renewal has taken long: its error says what to look at.
func TestLeaseThatIsTooShortForTheStoreIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := electiontest.VirtualClock(1)
		store := &slowRenewal{Store: electiontest.NewStore(clock), asked: make(chan struct{}, 9), answer: make(chan struct{})}
		late := aged{store, 650 * time.Millisecond}
		e, err := election.New(late, "e", election.Options{ID: "a", Lease: time.Second, Once: true, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Run(t.Context(), func(ctx context.Context, _ election.Leadership) error {
			<-ctx.Done()
			close(store.answer)
			return nil
		})
		if !errors.Is(err, election.ErrLost) || !strings.Contains(err.Error(), "the lease is too short") {
			t.Error(err)
		}
	})
}

// aged is a backend whose grants were proved some time ago.
type aged struct {
	election.Backend
	by time.Duration
}

func (a aged) Acquire(ctx context.Context, c election.Claim) (election.Grant, error) {
	grant, err := a.Backend.Acquire(ctx, c)
	grant.Sent = grant.Sent.Add(-a.by)
	return grant, err
}
