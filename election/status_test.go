package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

func TestElectorKnowsItsLeadership(t *testing.T) {
	e := elector(t, electiontest.NewStore(nil), election.Options{Once: true, ID: "a"})
	if lead, ok := e.Leadership(); ok || e.IsLeader() || lead.Token() != 0 {
		t.Errorf("before Run it leads with token %d", lead.Token())
	}
	err := e.Run(awaittest.Within(t), func(ctx context.Context, lead election.Leadership) error {
		mine, ok := e.Leadership()
		if !ok || mine != lead || !e.IsLeader() {
			t.Errorf("the function leads, and the Elector says %v, %v", mine, ok)
		}
		lead.Resign()
		<-ctx.Done()
		if e.IsLeader() {
			t.Error("it leads after its end")
		}
		return nil
	})
	if err != nil || e.IsLeader() {
		t.Errorf("Run returned %v, leads: %v", err, e.IsLeader())
	}
}

func TestZeroLeadershipHasNeverBeen(t *testing.T) {
	var lead election.Leadership
	lead.Resign()
	if err := lead.Err(); !errors.Is(err, election.ErrNotLeader) {
		t.Errorf("Err: %v", err)
	}
	if err := lead.Ensure(awaittest.Within(t), 0); !errors.Is(err, election.ErrNotLeader) {
		t.Errorf("Ensure: %v", err)
	}
	if lead.Token() != 0 || lead.ID() != "" || lead.Election() != "" || lead.Lease() != 0 || lead.Remaining() != 0 ||
		lead.Deadline() != 0 || lead.End() != 0 || lead.Files() != nil {
		t.Error("it has something")
	}
	<-lead.Done()
}

// TestEnsureRenewsWhenTooLittleIsLeft: of a lease of 40 s, 38 s count, of which 8 s are the
// grace. The clock advances only by the test, and no renewal is due.
func TestEnsureRenewsWhenTooLittleIsLeft(t *testing.T) {
	c := clock.NewManual(0)
	e := elector(t, electiontest.NewStore(c), election.Options{Once: true, Lease: 40 * time.Second, Clock: c})
	err := e.Run(awaittest.Within(t), func(ctx context.Context, lead election.Leadership) error {
		left := func() time.Duration { return lead.End().Sub(c.Now()) }
		fresh := left()
		c.Advance(5 * time.Second)
		if err := lead.Ensure(ctx, 20*time.Second); err != nil || left() != fresh-5*time.Second {
			t.Errorf("enough was left: %v, %v left", err, left())
		}
		if err := lead.Ensure(ctx, 28*time.Second); err != nil || left() != fresh {
			t.Errorf("too little was left: %v, %v left", err, left())
		}
		c.Advance(time.Second)
		if err := lead.Ensure(ctx, 35*time.Second); !errors.Is(err, election.ErrLeaseTooShort) || lead.Err() != nil {
			t.Errorf("more than the lease gives: %v", err)
		}
		if left() != fresh {
			t.Errorf("%v left after it, of %v", left(), fresh)
		}
		lead.Resign()
		<-ctx.Done()
		if err := lead.Ensure(awaittest.Within(t), 0); !errors.Is(err, election.ErrResigned) {
			t.Errorf("at the end: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// deafStore answers no renewal.
type deafStore struct{ *electiontest.Store }

func (deafStore) Renew(ctx context.Context, _ election.Grant) (election.Grant, error) {
	<-ctx.Done()
	return election.Grant{}, ctx.Err()
}

func TestEnsureWaitsNoLongerThanItsContext(t *testing.T) {
	c := clock.NewManual(0)
	e := elector(t, deafStore{electiontest.NewStore(c)}, election.Options{Once: true, Lease: 40 * time.Second, Clock: c})
	err := e.Run(awaittest.Within(t), func(ctx context.Context, lead election.Leadership) error {
		enough := errors.New("enough")
		short, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(10*time.Millisecond, func() { cancel(enough) })
		c.Advance(time.Second)
		if err := lead.Ensure(short, 30*time.Second); !errors.Is(err, enough) {
			t.Errorf("Ensure: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
