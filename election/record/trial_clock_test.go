package record_test

import (
	"time"

	"github.com/conclave-project/conclave/clock"
)

// trialClock is the clock of one program: it has a rate of its own, and its timers
// fire only while the program runs.
type trialClock struct {
	c     *trialCandidate
	start time.Time
	rate  float64
}

func (k *trialClock) Now() clock.Instant {
	passed := time.Since(k.start)
	if k.c.t.mutant == trialClockStops {
		passed -= k.c.pausedFor()
	}
	return clock.Instant(k.rate * float64(passed))
}

// pausedFor is the total time for which the program has been paused.
func (c *trialCandidate) pausedFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resumed != nil {
		return c.paused + time.Since(c.lastStop)
	}
	return c.paused
}

func (k *trialClock) Timer(at clock.Instant) clock.Timer {
	t := &trialTimer{fired: make(chan struct{})}
	wait := time.Duration(float64(at.Sub(k.Now()))/k.rate) + 1 // not earlier than at
	t.timer = time.AfterFunc(wait, func() {
		k.c.awaitRunning()
		if k.c.t.mutant == trialDeadlineAfterCallback {
			k.c.awaitTold()
		}
		close(t.fired)
	})
	return t
}

type trialTimer struct {
	timer *time.Timer
	fired chan struct{}
}

func (t *trialTimer) C() <-chan struct{} { return t.fired }
func (t *trialTimer) Stop()              { t.timer.Stop() }
