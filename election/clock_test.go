package election_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// outsider is a clock of a program outside, written with only the names of package clock:
// this machine's clock, plus the time that it has jumped ahead.
type outsider struct{ ahead atomic.Int64 }

func (o *outsider) jump(d time.Duration) { o.ahead.Add(int64(d)) }

func (o *outsider) Now() clock.Instant {
	return clock.Now().Add(time.Duration(o.ahead.Load()))
}

func (o *outsider) Timer(at clock.Instant) clock.Timer {
	fired := make(chan struct{})
	return &slowTimer{fired, time.AfterFunc(at.Sub(o.Now()), func() { close(fired) })}
}

type slowTimer struct {
	fired chan struct{}
	timer *time.Timer
}

func (t *slowTimer) C() <-chan struct{} { return t.fired }
func (t *slowTimer) Stop()              { t.timer.Stop() }

func TestElectorCountsOnTheClockOfAProgramOutside(t *testing.T) {
	c := &outsider{}
	e := elector(t, electiontest.NewStore(c), election.Options{Once: true, Lease: time.Minute, Clock: c})
	err := e.Run(awaittest.Within(t), func(_ context.Context, lead election.Leadership) error {
		if left := lead.Deadline().Sub(c.Now()); left <= 0 || left > time.Minute {
			t.Errorf("%v of a minute are left at first", left)
		}
		c.jump(time.Hour)
		return lead.Err()
	})
	if !errors.Is(err, election.ErrLost) {
		t.Errorf("an hour after a lease of a minute: %v", err)
	}
}

// A program whose tests move the clock gives the Elector one that it moves itself.
func ExampleOptions_clock() {
	c := clock.NewManual(0)
	_ = election.Options{Clock: c}
	c.Advance(time.Minute)
}
