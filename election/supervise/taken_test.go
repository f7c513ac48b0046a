//go:build unix

package supervise

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/clock"
)

type losing struct {
	*electiontest.Store
	lost chan struct{}
}

func (l losing) Acquire(ctx context.Context, c election.Claim) (election.Grant, error) {
	g, err := l.Store.Acquire(ctx, c)
	g.Lost = l.lost
	return g, err
}

// "A leadership that is being lost leaves it the Grace of the election's Options
// at most." One that was taken is another's already.
func TestCommandOfATakenLeadershipGetsTheGraceOfTheElection(t *testing.T) {
	store := losing{electiontest.NewStore(nil), make(chan struct{})}
	e, err := election.New(store, "jobs", election.Options{ID: "a", Lease: 20 * time.Second, Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	_ = e.Run(t.Context(), func(ctx context.Context, lead election.Leadership) error {
		close(store.lost)
		<-ctx.Done()
		s := &supervisor{elector: e, command: Command{Grace: time.Minute}}
		turn := &turn{supervisor: s, ctx: ctx, lead: lead, clock: clock.System(), orders: make(chan message, messagesMax)}
		turn.stop(syscall.SIGTERM)
		order := <-turn.orders
		if order.Stop.Grace > time.Second {
			t.Errorf("the leadership is %s, and the command may go on for %v; the grace of the election is 1 s",
				order.Stop.Reason, order.Stop.Grace)
		}
		return nil
	})
}
