// Package awaittest is for tests: it waits until what others do is done, and keeps what
// they log meanwhile.
//
// In go conditions that a test can look at and that nothing tells. What always holds:
//
//	awaittest-W1  A wait ends as soon as its condition holds, however busy the
//	              machine is, and fails the test if it never does.
//	awaittest-W2  What must not happen is looked for all the time, and last when
//	              the time is over.
//
// It does not wait for time to pass: where a test needs that, it has a clock of its own
// (package clock's Manual, testing/synctest). RealTime is for what rests on real
// processes, sockets and disks, and on how long something lasts there.
package awaittest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long a test waits for what must come: far above what it takes.
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

// Never looks for as long as it is told, and fails the test as soon as the condition
// holds, which what names. It reports whether it never held. How long that is, is part of
// what is tested: a lease, the time in which others look again.
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

// RealTime lets time pass on the clock of the machine where its passing is what the test
// plays: the length of a fault, a disk or a peer that is slow, the pace of a load. The
// reason says which. That it has passed proves nothing: Until waits for what must come,
// Never looks for what must not.
func RealTime(lasts time.Duration, reason string) {
	_ = reason // for readers
	time.Sleep(lasts)
}

// Within returns a context that ends after Patience, or with the test: what is asked
// of a server in it does not hang.
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
