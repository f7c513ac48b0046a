// Package awaittest is for tests: it waits until what others do is done.
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
