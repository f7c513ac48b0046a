// Package bubble is for tests on the virtual time of a bubble of testing/synctest: a clock,
// slow disks, and machines with a network between them.
//
// A test breaks something, and the program sees the effect. What always holds:
//
//	bubble-B1  Everything waits in a way that the bubble detects, so its time can advance.
//	bubble-B2  On a connection bytes come in order and whole, or it breaks. What
//	           was written before a connection was reset may be lost; a cut only
//	           delays what was written.
//
// It runs no servers and breaks nothing by itself.
package bubble

import (
	"math/rand/v2"
	"time"

	"github.com/conclave-project/conclave/clock"
)

// Clock returns a clock on the time of the bubble that runs at another rate, 1 being the right
// one. All of one rate show the same.
func Clock(rate float64) clock.Clock { return virtual{rate} }

// DriftingClock returns a clock that is up to 2.5 % slow or fast, so two may differ by 5 %.
func DriftingClock(random *rand.Rand) clock.Clock {
	return Clock([]float64{0.975, 1, 1.025}[random.IntN(3)])
}

// start is when each bubble begins.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

type virtual struct{ rate float64 }

func (v virtual) Now() clock.Instant {
	return clock.Instant(v.rate*float64(time.Since(start))) + 1
}

func (v virtual) Timer(at clock.Instant) clock.Timer {
	t := &timer{fired: make(chan struct{})}
	wait := time.Duration(float64(at.Sub(v.Now()))/v.rate) + 1 // no earlier than at
	t.timer = time.AfterFunc(wait, func() { close(t.fired) })
	return t
}

type timer struct {
	timer *time.Timer
	fired chan struct{}
}

func (t *timer) C() <-chan struct{} { return t.fired }
func (t *timer) Stop()              { t.timer.Stop() }
