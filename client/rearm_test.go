package client

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// TestWatchesAreSetAgainInRequestsThatServersTake: a request longer than
// Options.RequestBytesMax would end each connection on which it is sent, and in the end the
// session.
func TestWatchesAreSetAgainInRequestsThatServersTake(t *testing.T) {
	const limit = 10_000
	for what, one := range map[string]struct{ watches, pathBytes int }{"many": {40, 700}, "a long path": {1, limit - 100}} {
		inBubble(what, t, func(t *testing.T) {
			longest := 0
			f := &fake{timeoutMs: 60_000, script: func(conn *fakeConn, r *zk.Request) bool {
				if r.Op == zk.OpSetWatches {
					longest = max(longest, len(wire.AppendRequest(nil, r))-wire.PrefixBytes)
				}
				return false
			}}
			c := f.start(t, func(o *Options) { o.RequestBytesMax = limit })
			for i := range one.watches {
				_, _, _, err := c.GetW(t.Context(), fmt.Sprintf("/%0*d", one.pathBytes, i))
				must(t, err)
			}
			f.cut()
			_, _, err := c.Exists(t.Context(), "/") // on the next connection
			must(t, err)
			if longest > limit || longest == 0 {
				t.Errorf("a request of %d bytes where %d are the most", longest, limit)
			}
			must(t, c.Close())
		})
	}
}
