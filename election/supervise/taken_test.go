//go:build unix

package supervise

import (
	"context"
	"iter"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// losing is a store that grants everything, and then reports that it is lost.
type losing struct{ lost chan struct{} }

func (losing) Traits() election.Traits {
	return election.Traits{Name: "losing", Exclusive: true, Expires: true, LeaseMin: time.Second}
}

func (l losing) Acquire(_ context.Context, c election.Claim) (election.Grant, error) {
	return election.Grant{Claim: c, Token: 1, Sent: clock.Now(), Lease: c.Lease, Lost: l.lost}, nil
}

func (losing) Renew(_ context.Context, g election.Grant) (election.Grant, error) { return g, nil }
func (losing) Release(context.Context, election.Grant) error                     { return nil }

func (losing) Observe(context.Context, string) iter.Seq2[election.View, error] {
	return func(func(election.View, error) bool) {}
}

// Another candidate may already lead when the store says that a leadership is gone: no grace is
// left, neither the command's nor the election's.
func TestCommandOfATakenLeadershipGetsNoGrace(t *testing.T) {
	store := losing{make(chan struct{})}
	e, err := election.New(store, "jobs", election.Options{Once: true, ID: "a", Lease: 20 * time.Second, Grace: time.Second})
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
		if order.Stop.Grace != 0 {
			t.Errorf("the leadership is %s, and the command may go on for %v", order.Stop.Reason, order.Stop.Grace)
		}
		return nil
	})
}
