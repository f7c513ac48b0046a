package client

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// TestCloseEndsTheSessionAfterSlowWork, which does not look at its context.
func TestCloseEndsTheSessionAfterSlowWork(t *testing.T) {
	for range 10 { // two timers fire at once
		inBubble("", t, func(t *testing.T) {
			f := &fake{timeoutMs: 100_000}
			c := f.start(t, nil)
			c.Go(func(context.Context) { time.Sleep(closeWait + time.Second) })
			if err := c.Close(); err != nil || f.seen(zk.OpCloseSession) != 1 {
				t.Errorf("the server was told %d times, %v", f.seen(zk.OpCloseSession), err)
			}
		})
	}
}

// TestClosingAndDetachingAtOnce used to end the process, once in some thousand runs, or at
// once with the race detector: a sync.WaitGroup was incremented while another goroutine
// waited for it at zero.
func TestClosingAndDetachingAtOnce(t *testing.T) {
	for turn := range 300 {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			c := f.start(t, nil)
			if turn%2 == 0 {
				c.Go(func(ctx context.Context) { <-ctx.Done() })
			}
			var both sync.WaitGroup
			both.Go(func() { c.Detach() })
			both.Go(func() { _ = c.Close() })
			both.Wait()
			time.Sleep(time.Second) // the server ends, too
		})
	}
}
