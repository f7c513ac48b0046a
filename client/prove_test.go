package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/zk"
)

func TestProofIsSharedByAllWhoNeedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{timeoutMs: 9000, script: func(_ *fakeConn, r *zk.Request) bool {
			time.Sleep(10 * time.Millisecond)
			return false
		}}
		c := f.start(t, nil)
		time.Sleep(4 * time.Second)
		start := c.clock.Now()
		ended := make(chan clock.Instant, 20)
		for range cap(ended) {
			go func() {
				until, err := c.Prove(t.Context(), 0)
				if err != nil {
					t.Error(err)
				}
				ended <- until
			}()
		}
		for range cap(ended) {
			if until := <-ended; until <= start || until > start.Add(9*time.Second) {
				t.Errorf("proven for %v", until.Sub(start))
			}
		}
		if n := f.seen(zk.OpMulti); n != 1 {
			t.Errorf("%d transactions for proofs that were asked for at once", n)
		}
		time.Sleep(time.Second)
		_, err := c.Prove(t.Context(), 2*time.Second)
		must(t, err)
		if n := f.seen(zk.OpMulti); n != 1 {
			t.Errorf("%d transactions: the proof that there was is young enough", n)
		}
		_, err = c.Set(t.Context(), "/a", nil, -1) // any other request would do as well
		must(t, err)
		_, err = c.Prove(t.Context(), time.Second)
		must(t, err)
		_, err = c.Prove(t.Context(), 0)
		must(t, err)
		if n := f.seen(zk.OpMulti); n != 2 {
			t.Errorf("%d transactions", n)
		}
		must(t, c.Close())
	})
}

func TestProofEndsWithItsContextAndWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: func(_ *fakeConn, r *zk.Request) bool { return r.Op == zk.OpMulti }} // never answered
		c := f.start(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := c.Prove(ctx, 0); first <- err }()
		synctest.Wait()
		go func() { _, err := c.Prove(ctx, 0); second <- err }()
		synctest.Wait()
		cancel()
		for _, ended := range []chan error{first, second} {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		go func() { _, err := c.Prove(t.Context(), 0); first <- err }()
		synctest.Wait()
		c.Detach()
		if err := <-first; !errors.Is(err, zk.ErrClosing) {
			t.Error(err)
		}
	})
}
