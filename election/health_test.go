package election_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestCheckThatTakesTooLongHasFailed even if it passes in the end, and however often:
// DiskCheck on a slow disk does not observe its context.
func TestCheckThatTakesTooLongHasFailed(t *testing.T) {
	const every = time.Second
	for _, takes := range []time.Duration{every * 3 / 2, every * 5 / 2} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := electiontest.VirtualClock(1)
				var slow atomic.Bool
				e := elector(t, electiontest.NewStore(c), election.Options{Once: true, Clock: c, HealthEvery: every,
					Health: func(context.Context) error {
						if slow.Load() {
							time.Sleep(takes)
						}
						return nil
					}})
				err := e.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
					slow.Store(true)
					select {
					case <-ctx.Done():
					case <-time.After(20 * every):
					}
					return nil
				})
				time.Sleep(takes) // the check that was under way
				var lost *election.LostError
				if !errors.As(err, &lost) || lost.Reason != election.ReasonUnhealthy {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
}
