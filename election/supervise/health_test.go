//go:build unix

package supervise

import (
	"sync"
	"testing"
	"time"
)

// TestCheckThatJustBeginsHoldsUpNoPause: when the pause is requested, the check to
// end is the previous one.
func TestCheckThatJustBeginsHoldsUpNoPause(t *testing.T) {
	asked := make(chan struct{})
	h := &Health{end: sync.OnceFunc(func() { close(asked) })}
	h.mu.Lock()
	paused := make(chan func())
	go func() { paused <- h.pause() }()
	<-asked
	h.endMu.Lock()
	h.end = sync.OnceFunc(h.mu.Unlock) // the check begins, and ends when it is told to
	h.endMu.Unlock()
	select {
	case resume := <-paused:
		resume()
	case <-time.After(time.Minute):
		t.Fatal("the pause waits until the check ends by itself")
	}
}
