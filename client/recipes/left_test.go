package recipes

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/servertest"
	"github.com/conclave-project/conclave/zk"
)

// TestLockThatWasDeletedLeavesNoWatch: nobody will ever create its znode again, and every
// later connection would set the watch again.
func TestLockThatWasDeletedLeavesNoWatch(t *testing.T) {
	addr, ctx := serve(t), awaittest.Within(t)
	network := &servertest.Links{}
	c := dialed(t, addr, client.Options{Dialer: network.Dial, BackoffMax: 20 * time.Millisecond})
	h, err := NewLock(c, "/lock", Options{}).Acquire(ctx)
	must(t, err)
	must(t, dialed(t, addr, client.Options{}).Delete(ctx, h.Path(), -1))
	select {
	case <-h.Lost():
	case <-ctx.Done():
		t.Fatal("it is not lost")
	}
	network.Cut()
	if has, err := c.HasWatches(ctx, h.Path(), zk.WatcherAny); has || err != nil {
		t.Errorf("the next connection has the watch: %t, %v", has, err)
	}
}
