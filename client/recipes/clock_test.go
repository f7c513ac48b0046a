package recipes

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// sinceStart is a clock with the rate of the system's clock, but its own start, like the
// clocks of simulations.
type sinceStart struct{ start clock.Instant }

func (s sinceStart) Now() clock.Instant { return clock.Instant(clock.System().Now().Sub(s.start)) }

func (s sinceStart) Timer(at clock.Instant) clock.Timer {
	return clock.System().Timer(s.start.Add(time.Duration(at)))
}

// TestDeadlineOfALockIsOneOfTheClientsClock, and so are earlier waits: by the system's
// clock, which is far ahead, the deadline is over from the start.
func TestDeadlineOfALockIsOneOfTheClientsClock(t *testing.T) {
	own := sinceStart{clock.System().Now().Add(-time.Second)}
	c := dialed(t, serve(t), client.Options{Clock: own, SessionTimeout: 3 * time.Second})
	if c.Clock() != clock.Clock(own) {
		t.Errorf("the client's clock is %v", c.Clock())
	}
	h, err := NewLock(c, "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
	if left := h.ProvenUntil().Sub(own.Now()); left <= 0 || left > c.Timeout() {
		t.Errorf("the lock is proven for another %v, the session has %v", left, c.Timeout())
	}
	for first := h.ProvenUntil(); h.ProvenUntil() <= first; {
		select {
		case <-h.moved:
		case <-h.Lost():
			t.Fatal("the lock is lost, and its session lives")
		case <-awaittest.Within(t).Done():
			t.Fatal("nothing proves the session")
		}
	}
	must(t, h.Release(awaittest.Within(t)))
}
