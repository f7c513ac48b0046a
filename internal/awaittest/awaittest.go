// Package awaittest is for tests: it waits until what others do is done, and keeps what
// they log meanwhile.
//
// It is for conditions that a test can check but that nothing signals. What always holds:
//
//	awaittest-W1  A wait ends as soon as its condition holds, however busy the
//	              machine is, and fails the test if it never does.
//	awaittest-W2  A condition that must not hold is checked all the time, and
//	              a last time at the end.
//
// It does not wait for time to pass: a test that needs this uses a clock of its own
// (package clock's Manual, testing/synctest). RealTime is for tests that depend on real
// processes, sockets and disks, and on durations there.
package awaittest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long a test waits for something that must happen: far longer than it takes.
const Patience = time.Minute

// pause is between two looks.
const pause = time.Millisecond

// Until waits until the condition holds, which what names.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain until %s", Patience, what)
		}
	}
}

// Poll looks until the condition holds or the context ends, and reports whether it holds.
// It is for what has a limit of its own, and for processes that a test has started.
func Poll(ctx context.Context, holds func() bool) bool {
	for {
		if holds() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// Never checks the condition for the given time, and fails the test as soon as it holds;
// what names it. It reports whether it never held. The time is part of the test: a lease,
// for instance, or the time after which others read again.
func Never(t testing.TB, long time.Duration, what string, holds func() bool) bool {
	t.Helper()
	for began := time.Now(); ; time.Sleep(pause) {
		over := time.Since(began)
		if holds() {
			t.Errorf("after %v of %v: %s", over, long, what)
			return false
		}
		if over >= long {
			return true
		}
	}
}

// RealTime sleeps on the clock of the machine. It is for tests in which a duration is
// part of the scenario: the length of a fault, a slow disk or peer, the pace of a load.
// reason says which. That the time has passed proves nothing: use Until for what must
// happen, and Never for what must not.
func RealTime(lasts time.Duration, reason string) {
	_ = reason // for readers
	time.Sleep(lasts)
}

// Within returns a context that ends after Patience or with the test, so a request
// to a server cannot hang.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Log is what was logged, for a test that reads it while others write.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how often a text stands in it.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }
