package client

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// TestDeleteThatWasLostIsUnknown, even if it is given up before it is sent again.
func TestDeleteThatWasLostIsUnknown(t *testing.T) {
	for how, retryFor := range map[string]time.Duration{"patience": time.Second, "context": 0} {
		for what, act := range map[string]func(context.Context, *deletion) error{
			"root":  func(ctx context.Context, d *deletion) error { return d.deleteRoot(ctx, "/a", -1) },
			"child": func(ctx context.Context, d *deletion) error { return d.delete(ctx, "/a/b") },
		} {
			inBubble(how+", "+what, t, func(t *testing.T) {
				f := &fake{timeoutMs: 100_000}
				f.script = func(conn *fakeConn, r *zk.Request) bool {
					if r.Op == zk.OpDelete { // applied, and then there is no server
						f.setDown(true)
						_ = conn.Close()
					}
					return r.Op == zk.OpDelete
				}
				c := f.start(t, func(o *Options) { o.RetryFor = retryFor })
				defer c.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				err := act(ctx, &deletion{client: c})
				if err == nil || OutcomeOf(err) != Unknown || f.seen(zk.OpDelete) != 1 {
					t.Errorf("%v, %v; sent %d times", err, OutcomeOf(err), f.seen(zk.OpDelete))
				}
			})
		}
	}
}
