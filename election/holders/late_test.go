package holders_test

import (
	"context"
	"math"
	"testing"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/holders"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// stiff is the clock of a process that was frozen: it shows the time, but its timers have not
// fired yet.
type stiff struct{ clock.Clock }

func (s stiff) Timer(clock.Instant) clock.Timer { return s.Clock.Timer(math.MaxInt64) }

// latePlaces reports when its candidate asks for a place, and lets the request reach the store
// later.
type latePlaces struct {
	election.Backend
	asked, let chan struct{}
}

func (l latePlaces) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	if claim.Election != "tables/gate" {
		select {
		case l.asked <- struct{}{}:
		default: // it was reported already
		}
		select {
		case <-l.let:
		case <-ctx.Done():
			return election.Grant{}, context.Cause(ctx)
		}
	}
	return l.Backend.Acquire(ctx, claim)
}

// TestReaderThatWasFrozenAtTheGateComesThroughItAgain: it is granted a place before it is told
// that it has lost the gate, through which a writer has come since. With the token that it had
// there, it would act after the writer with a lower token.
func TestReaderThatWasFrozenAtTheGateComesThroughItAgain(t *testing.T) {
	c := clock.NewManual(0)
	store := electiontest.NewStore(c)
	way := latePlaces{store, make(chan struct{}, 1), make(chan struct{})}
	lock := func(b election.Backend, id string, c clock.Clock) *holders.RWLock {
		l, err := holders.NewRWLock(b, "tables", 1, election.Options{ID: id, Lease: lockLease, Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	reader, writer := lock(way, "reader", stiff{c}), lock(store, "writer", c)
	read, ended := make(chan election.Token, 1), make(chan error, 1)
	go func() {
		ended <- reader.Read(awaittest.Within(t), func(_ context.Context, held holders.Held) error {
			read <- held.Token()
			return nil
		})
	}()
	<-way.asked
	c.Advance(2 * lockLease)
	var wrote election.Token
	err := writer.Write(awaittest.Within(t), func(_ context.Context, held holders.Held) error {
		wrote = held.Token()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	close(way.let)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if token := <-read; token <= wrote {
		t.Errorf("it reads with token %d after a writer with token %d", token, wrote)
	}
}
