package election_test

import (
	"time"

	"github.com/conclave-project/conclave/election"
)

// slowClock is a clock of a program of its own: what it counts with can be
// written with the names of package election alone.
type slowClock struct{ began time.Time }

func (c slowClock) Now() election.Instant {
	return election.Instant(time.Since(c.began) / 2)
}

func (c slowClock) Timer(at election.Instant) election.Timer {
	fired := make(chan struct{})
	return &slowTimer{fired, time.AfterFunc(2*at.Sub(c.Now()), func() { close(fired) })}
}

type slowTimer struct {
	fired chan struct{}
	timer *time.Timer
}

func (t *slowTimer) C() <-chan struct{} { return t.fired }
func (t *slowTimer) Stop()              { t.timer.Stop() }

func ExampleOptions_clock() {
	var clock election.Clock = slowClock{time.Now()}
	_ = election.Options{Clock: clock}
}
