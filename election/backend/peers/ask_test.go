package peers_test

import (
	"errors"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestAskOfALeaderThatIsGoneReturns: the member that leads is paused when it is asked, and
// then its connections end. Nobody else knows whether it has accepted the request.
func TestAskOfALeaderThatIsGoneReturns(t *testing.T) {
	t.Parallel()
	g := found(t, 3, patient)
	for _, b := range g {
		await(t, b, "x", whole)
	}
	acquire(t, g[1], claim("x", "leader", 0))
	await(t, g[0], "x", func(v election.View, err error) bool { return v.Leader == "leader" && err == nil })
	thawed := make(chan struct{})
	defer close(thawed)
	g[1].Freeze(thawed)
	asked, ctx := make(chan error, 1), awaittest.Within(t)
	go func() { asked <- g[0].Ask(ctx, "x", election.Request{}) }()
	awaittest.Until(t, "it is asked", func() bool { return g[0].Questions() == 1 })
	g[0].Cut()
	g[0].Heal()
	acquire(t, g[2], claim("x", "next", 0))
	if err := <-asked; err == nil || ctx.Err() != nil || errors.Is(err, election.ErrNoLeader) {
		t.Errorf("Ask returned %v", err)
	}
	awaittest.Until(t, "the question is forgotten", func() bool { return g[0].Questions() == 0 })
}

// TestLeaderThatIsToResignTakesNoTransfer, whether the transfer is requested here or
// through another member.
func TestLeaderThatIsToResignTakesNoTransfer(t *testing.T) {
	g, ctx := found(t, 3, patient), awaittest.Within(t)
	acquire(t, g[1], claim("x", "leader", 0))
	await(t, g[0], "x", func(v election.View, err error) bool { return v.Leader == "leader" && err == nil })
	if err := g[0].Ask(ctx, "x", election.Request{By: "one"}); err != nil {
		t.Fatal(err)
	}
	for _, member := range g[:2] {
		if err := member.Ask(ctx, "x", election.Request{Transfer: "two"}); !errors.Is(err, election.ErrResigning) {
			t.Errorf("a transfer is asked for beside a request to resign: %v", err)
		}
		if err := member.Ask(ctx, "x", election.Request{}); err != nil {
			t.Errorf("it is asked to resign again: %v", err)
		}
	}
}
