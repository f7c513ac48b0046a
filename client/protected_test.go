package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// TestProtectedCreateThatKillsItsConnectionIsGivenUp: each time, the client looks for the
// znode, does not find it, and creates it again.
func TestProtectedCreateThatKillsItsConnectionIsGivenUp(t *testing.T) {
	inBubble("", t, func(t *testing.T) {
		f := &fake{timeoutMs: 100_000, script: func(conn *fakeConn, r *zk.Request) bool {
			switch r.Op {
			case zk.OpCreate2:
				_ = conn.Close()
				return true
			case zk.OpGetChildren2:
				conn.reply(r, zk.OK)
				return true
			}
			return false
		}}
		c := f.start(t, func(o *Options) { o.RetryFor = time.Minute })
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, _, prefix, err := c.CreateProtected(ctx, "/lock", nil, CreateOptions{})
		if ctx.Err() != nil || !errors.Is(err, zk.ErrConnectionLoss) || OutcomeOf(err) != NotApplied || prefix == "" {
			t.Errorf("%v, %v", err, OutcomeOf(err))
		}
		if sent := f.seen(zk.OpCreate2); sent != resendsMax+1 {
			t.Errorf("it was sent %d times", sent)
		}
	})
}
