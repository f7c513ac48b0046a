package election_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// candidates run against one store, each until the test ends.
type candidates struct {
	t     *testing.T
	clock clock.Clock
	store election.Backend
	leads chan string
}

// inAStore returns candidates in a bubble.
func inAStore(t *testing.T) candidates {
	c := electiontest.VirtualClock(1)
	return candidates{t, c, record.New(record.NewMemory(c), record.Options{Clock: c}), make(chan string, 10)}
}

func (c candidates) run(o election.Options) *election.Elector {
	o.Lease, o.Clock = 5*time.Second, c.clock // none of them waits for its end
	e := elector(c.t, c.store, o)
	ctx, cancel := context.WithCancel(awaittest.Within(c.t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Run(ctx, func(ctx context.Context, _ election.Leadership) error {
			c.leads <- o.ID
			<-ctx.Done()
			return nil
		})
	}()
	c.t.Cleanup(func() { cancel(); <-ended })
	return e
}

// hangs never gets ready, and says when it was asked to.
func hangs(asked chan<- struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		close(asked)
		<-ctx.Done()
		return ctx.Err()
	}
}

// TestTransferGoesBeforeARivalThatNeverGetsReady: a candidate of higher priority hangs in
// Warm; the candidate that somebody requests leads nevertheless.
func TestTransferGoesBeforeARivalThatNeverGetsReady(t *testing.T) {
	synctest.Test(t, transferGoesBeforeARival)
}

func transferGoesBeforeARival(t *testing.T) {
	c := inAStore(t)
	asked := make(chan struct{})
	a := c.run(election.Options{Once: true, ID: "a"})
	<-c.leads
	c.run(election.Options{Once: true, ID: "hangs", Priority: 1, Warm: hangs(asked)})
	<-asked
	c.run(election.Options{Once: true, ID: "good"})
	if err := a.TransferTo(awaittest.Within(t), "good"); err != nil {
		t.Fatal(err)
	}
	if id := <-c.leads; id != "good" {
		t.Errorf("%q leads", id)
	}
}

// TestHandOverHasATimeLimit: the requested candidate hangs in Warm, and the leader
// continues to lead and can accept the next request.
func TestHandOverHasATimeLimit(t *testing.T) { synctest.Test(t, handOverHasATimeLimit) }

func handOverHasATimeLimit(t *testing.T) {
	c := inAStore(t)
	asked := make(chan struct{})
	a := c.run(election.Options{Once: true, ID: "a", WarmLimit: 700 * time.Millisecond})
	<-c.leads
	c.run(election.Options{Once: true, ID: "hangs", Warm: hangs(asked)})
	if err := a.TransferTo(awaittest.Within(t), "hangs"); err == nil || !strings.Contains(err.Error(), "not ready after 700ms") {
		t.Errorf("the hand-over to one that hangs: %v", err)
	}
	c.run(election.Options{Once: true, ID: "good"})
	if err := a.TransferTo(awaittest.Within(t), "good"); err != nil {
		t.Fatal(err)
	}
	if id := <-c.leads; id != "good" {
		t.Errorf("%q leads", id)
	}
}
