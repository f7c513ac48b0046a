package conclavetest

import (
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
)

// movable is the clock of this machine plus the offset by which it was moved.
type movable struct {
	base clock.Clock

	mu     sync.Mutex
	offset time.Duration
	timers map[*timer]struct{} // the timers that may still fire
}

func newMovable() *movable {
	return &movable{base: clock.System(), timers: map[*timer]struct{}{}}
}

// Now implements clock.Clock.
func (m *movable) Now() clock.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now()
}

func (m *movable) now() clock.Instant { return m.base.Now().Add(m.offset) }

// wall returns the date by this clock.
func (m *movable) wall() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Add(m.offset)
}

// advance moves the clock, and fires the timers that are then due.
func (m *movable) advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offset += d
	for t := range m.timers {
		t.arm()
	}
}

// Timer implements clock.Clock.
func (m *movable) Timer(at clock.Instant) clock.Timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &timer{clock: m, at: at, fired: make(chan struct{})}
	m.timers[t] = struct{}{}
	t.inner = time.AfterFunc(time.Hour, t.wake)
	t.arm()
	return t
}

// timer fires when its clock reaches its instant. The clock's mutex guards it.
type timer struct {
	clock *movable
	at    clock.Instant
	inner *time.Timer
	fired chan struct{}
}

// arm fires the timer if it is due, and otherwise schedules the next check.
func (t *timer) arm() {
	left := t.at.Sub(t.clock.now())
	if left > 0 {
		t.inner.Reset(left)
		return
	}
	t.inner.Stop()
	delete(t.clock.timers, t)
	close(t.fired)
}

func (t *timer) wake() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if _, waits := t.clock.timers[t]; waits {
		t.arm()
	}
}

// C implements clock.Timer.
func (t *timer) C() <-chan struct{} { return t.fired }

// Stop implements clock.Timer.
func (t *timer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
	t.inner.Stop()
}
