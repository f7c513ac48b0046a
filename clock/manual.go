package clock

import (
	"sync"
	"time"
)

// Manual is a clock that moves only when a test moves it.
type Manual struct {
	mu     sync.Mutex
	now    Instant
	timers map[*manualTimer]struct{}
	moved  chan struct{}
}

// NewManual returns a clock set to the given instant.
func NewManual(at Instant) *Manual {
	return &Manual{now: at, timers: make(map[*manualTimer]struct{}), moved: make(chan struct{})}
}

// Now returns the instant to which the clock was last moved.
func (m *Manual) Now() Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Advance moves the clock and fires every timer whose instant has come.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	for t := range m.timers {
		if t.at <= m.now {
			close(t.fired)
			delete(m.timers, t)
		}
	}
}

// Next returns the instant of the earliest timer that is set, or false if there is none.
func (m *Manual) Next() (Instant, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var next Instant
	found := false
	for t := range m.timers {
		if !found || t.at < next {
			next, found = t.at, true
		}
	}
	return next, found
}

// Await returns when the earliest timer is set for the given instant, so a test can wait until the
// code under test has set its timer before it moves the clock.
func (m *Manual) Await(at Instant) {
	for {
		m.mu.Lock()
		moved := m.moved
		m.mu.Unlock()
		if next, ok := m.Next(); ok && next == at {
			return
		}
		<-moved
	}
}

// Timer returns a timer that fires when the clock is moved to its instant.
func (m *Manual) Timer(at Instant) Timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &manualTimer{clock: m, at: at, fired: make(chan struct{})}
	if at <= m.now {
		close(t.fired)
		return t
	}
	m.timers[t] = struct{}{}
	m.changed()
	return t
}

func (m *Manual) changed() {
	close(m.moved)
	m.moved = make(chan struct{})
}

type manualTimer struct {
	clock *Manual
	at    Instant
	fired chan struct{}
}

func (t *manualTimer) C() <-chan struct{} { return t.fired }

func (t *manualTimer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
	t.clock.changed()
}
