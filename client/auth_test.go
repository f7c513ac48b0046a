package client

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// If AddAuth was given up before its credential was sent, the credential is not sent later,
// when it could end the session; one that was sent may be applied.
func TestCredentialThatWasGivenUp(t *testing.T) {
	for what, down := range map[string]bool{"while no server is reached": true, "while it is not answered": false} {
		inBubble(what, t, func(t *testing.T) {
			answer := make(chan struct{})
			f := &fake{script: func(_ *fakeConn, r *zk.Request) bool {
				if r.Op == zk.OpAuth {
					<-answer
				}
				return false
			}}
			c := f.start(t, nil)
			f.setDown(down)
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := c.AddAuth(ctx, "digest", []byte("bob:mistyped"))
			close(answer)
			f.setDown(false)
			if _, _, err := c.Exists(t.Context(), "/"); err != nil { // connected, or again
				t.Error(err)
			}
			want, shown := NotApplied, 0
			if !down {
				want, shown = Unknown, 1
			}
			if outcome := OutcomeOf(err); err == nil || outcome != want || f.seen(zk.OpAuth) != shown {
				t.Errorf("%v, %v; the credential was shown %d times", err, outcome, f.seen(zk.OpAuth))
			}
			_ = c.Close()
		})
	}
}
