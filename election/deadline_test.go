package election_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// TestHaltedLoopDelaysNoDeadline: the function is told in time even if the loop of Run is held up
// by something, here by its clock.
func TestHaltedLoopDelaysNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &halting{Clock: electiontest.VirtualClock(1), goOn: make(chan struct{})}
		store := electiontest.NewFaulty(electiontest.NewStore(c))
		e := elector(t, store, election.Options{Once: true, ID: "a", Clock: c, Lease: 10 * time.Second})
		var end clock.Instant
		ended := make(chan error, 1)
		go func() {
			ended <- e.Run(t.Context(), func(ctx context.Context, lead election.Leadership) error {
				end = lead.End()
				<-ctx.Done()
				if at := c.Now(); at > end.Add(time.Millisecond) {
					t.Errorf("told %v too late", at.Sub(end))
				}
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		store.Cut()
		c.halted.Store(true)
		time.Sleep(time.Minute)
		close(c.goOn)
		if err := <-ended; !errors.Is(err, election.ErrLost) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// counted is a clock that knows how many of its timers are not stopped.
type counted struct {
	clock.Clock
	running atomic.Int64
}

type countedTimer struct {
	clock.Timer
	of   *counted
	once atomic.Bool
}

func (c *counted) Timer(at clock.Instant) clock.Timer {
	c.running.Add(1)
	return &countedTimer{Timer: c.Clock.Timer(at), of: c}
}

func (t *countedTimer) Stop() {
	t.Timer.Stop()
	if t.once.CompareAndSwap(false, true) {
		t.of.running.Add(-1)
	}
}

// TestLeaderLeavesNoTimers: a process may lead ten thousand elections for years.
func TestLeaderLeavesNoTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Clock: electiontest.VirtualClock(1)}
		e := elector(t, electiontest.NewStore(c), election.Options{Once: true, Clock: c, Lease: 4 * time.Second})
		if err := e.Run(t.Context(), func(context.Context, election.Leadership) error {
			before := c.running.Load()
			time.Sleep(time.Minute)
			if after := c.running.Load(); after > before+1 {
				t.Errorf("%d timers run, a minute ago it were %d", after, before)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if left := c.running.Load(); left != 0 {
			t.Errorf("%d timers run after the end", left)
		}
	})
}
