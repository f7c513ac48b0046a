package client

import (
	"context"
	"testing"
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
