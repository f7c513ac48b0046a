// Package awaittest is for tests: it waits until what others do is done, and keeps what
// they log meanwhile.
//
// In go conditions that a test can look at and that nothing tells. What always holds:
//
//	awaittest-W1  A wait ends as soon as its condition holds, however busy the
//	              machine is, and fails the test if it never does.
//
// It does not wait for time to pass: where a test needs that, it has a clock of its own
// (package clock's Manual, testing/synctest).
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
