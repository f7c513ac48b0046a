package election_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestGoexitOfACallbackIsItsFailureAlone, as when a test calls FailNow: the next event is
// reported, the next check is made, and the candidate leads.
func TestGoexitOfACallbackIsItsFailureAlone(t *testing.T) {
	var checks atomic.Int32
	var l log
	e := elector(t, electiontest.NewStore(nil), election.Options{
		Once:        true,
		OnEvent:     func(event election.Event) { l.add(event); runtime.Goexit() },
		HealthEvery: 200 * time.Millisecond, HealthFailures: 1,
		Health: func(context.Context) error {
			if checks.Add(1) == 1 {
				runtime.Goexit()
			}
			return nil
		},
	})
	err := e.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
		awaittest.Until(t, "the second check is made", func() bool { return checks.Load() >= 2 || ctx.Err() != nil })
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if checks.Load() < 2 || l.count(election.EventElected) == 0 || l.count(election.EventLost) == 0 {
		t.Errorf("%d checks, events %v", checks.Load(), l.kinds())
	}
}
