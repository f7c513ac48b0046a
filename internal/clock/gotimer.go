package clock

import (
	"sync"
	"time"
)

// goTimer rests on Go's own timers. It fires late by the length of a
// suspension, but never early: when Go's timer ends before the instant has
// come, it is set again.
type goTimer struct {
	fired chan struct{}

	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
}

func newGoTimer(at Instant) *goTimer {
	t := &goTimer{fired: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(at.Sub(now()), func() { t.fire(at) })
	return t
}

func (t *goTimer) fire(at Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	if left := at.Sub(now()); left > 0 {
		t.timer.Reset(left)
		return
	}
	t.stopped = true
	close(t.fired)
}

func (t *goTimer) C() <-chan struct{} { return t.fired }

func (t *goTimer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}
