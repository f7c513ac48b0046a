package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// TestARequestWithoutAServerWaitsAsLongAsItMay takes the limit from the client's
// options, or from the request's own context, which takes precedence.
func TestARequestWithoutAServerWaitsAsLongAsItMay(t *testing.T) {
	own := func(d time.Duration) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context { return WithRetryFor(ctx, d) }
	}
	for _, one := range []struct {
		name     string
		retryFor time.Duration
		own      func(context.Context) context.Context
		wait     time.Duration // until it fails; 0 if it waits until there is a server
	}{
		{"until the context ends", 0, nil, 0},
		{"two seconds", 2 * time.Second, nil, 2 * time.Second},
		{"never", RetryNever, nil, time.Nanosecond},
		{"two seconds of its own", 0, own(2 * time.Second), 2 * time.Second},
		{"never of its own", time.Minute, own(RetryNever), time.Nanosecond},
		{"without end of its own", RetryNever, own(0), 0},
		{"longer than it takes", 8 * time.Second, nil, 0},
	} {
		inBubble(one.name, t, func(t *testing.T) {
			f := &fake{timeoutMs: 60_000}
			c := f.start(t, func(o *Options) { o.RetryFor = one.retryFor })
			defer c.Close()
			ctx := t.Context()
			if one.own != nil {
				ctx = one.own(ctx)
			}
			f.setDown(true)
			synctest.Wait()
			time.AfterFunc(5*time.Second, func() { f.setDown(false) })
			began := time.Now()
			_, err := c.Set(ctx, "/a", nil, -1)
			waited := time.Since(began)
			if one.wait == 0 {
				if err != nil || waited < 5*time.Second {
					t.Errorf("ended after %v with %v", waited, err)
				}
				return
			}
			wantCode(t, err, zk.ErrConnectionLoss)
			if !errors.Is(err, ErrNotRetried) || OutcomeOf(err) != NotApplied || waited > one.wait {
				t.Errorf("ended after %v with %v, %v", waited, err, OutcomeOf(err))
			}
			if sent := f.seen(zk.OpSetData); sent != 0 {
				t.Errorf("it was sent %d times", sent)
			}
		})
	}
}

// TestALostRequestIsSentAgainAsLongAsItMay sends a read whose connection is lost each
// time, and is replaced at once.
func TestALostRequestIsSentAgainAsLongAsItMay(t *testing.T) {
	for _, one := range []struct {
		name     string
		retryFor time.Duration
		sent     int
	}{
		{"never", RetryNever, 1},
		{"without end", 0, resendsMax + 1},
	} {
		inBubble(one.name, t, func(t *testing.T) {
			f := &fake{timeoutMs: 60_000, script: func(conn *fakeConn, r *zk.Request) bool {
				if r.Op == zk.OpGetData {
					conn.Close()
				}
				return r.Op == zk.OpGetData
			}}
			c := f.start(t, func(o *Options) { o.RetryFor = one.retryFor })
			defer c.Close()
			_, _, err := c.Get(t.Context(), "/a")
			wantCode(t, err, zk.ErrConnectionLoss)
			if never := one.retryFor == RetryNever; errors.Is(err, ErrNotRetried) != never {
				t.Errorf("ended with %v", err)
			}
			if sent := f.seen(zk.OpGetData); sent != one.sent {
				t.Errorf("it was sent %d times, want %d", sent, one.sent)
			}
		})
	}
}

// TestAnAnswerIsWaitedForLongerThanAServer checks that the time counts only while a
// request has no server.
func TestAnAnswerIsWaitedForLongerThanAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		f := &fake{timeoutMs: 60_000, script: func(conn *fakeConn, r *zk.Request) bool {
			if r.Op == zk.OpGetData {
				<-held
			}
			return false
		}}
		c := f.start(t, nil)
		f.setDown(true)
		synctest.Wait()
		time.AfterFunc(time.Second, func() { f.setDown(false) })
		time.AfterFunc(10*time.Second, func() { close(held) })
		_, _, err := c.Get(WithRetryFor(t.Context(), 5*time.Second), "/a")
		must(t, err)
		must(t, c.Close())
	})
}

// TestCredentialWithoutAServerEndsWithItsPatience has a call that outlives the
// connections on which it was not answered.
func TestCredentialWithoutAServerEndsWithItsPatience(t *testing.T) {
	for _, one := range []struct {
		name     string
		retryFor time.Duration
		back     time.Duration // how long there is a server again before it is lost again
		waited   time.Duration
	}{
		{"never", RetryNever, 0, 0},
		{"three seconds", 3 * time.Second, 0, 3 * time.Second},
		{"a server came back", 3 * time.Second, 10 * time.Second, 11 * time.Second},
	} {
		inBubble(one.name, t, func(t *testing.T) {
			f := &fake{timeoutMs: 60_000, script: func(_ *fakeConn, r *zk.Request) bool {
				return r.Op == zk.OpAuth // which is not answered
			}}
			c := f.start(t, func(o *Options) { o.RetryFor = one.retryFor })
			defer c.Close()
			synctest.Wait()
			shown := time.Now()
			if one.back > 0 {
				time.AfterFunc(time.Second, func() { f.setDown(false) })
				time.AfterFunc(time.Second+one.back, func() { f.setDown(true) })
			}
			go func() {
				synctest.Wait()
				f.setDown(true)
			}()
			err := c.AddAuth(t.Context(), "digest", []byte("a:b"))
			if waited := time.Since(shown); !errors.Is(err, ErrNotRetried) || !errors.Is(err, zk.ErrConnectionLoss) ||
				waited != one.waited || OutcomeOf(err) != Unknown {
				t.Errorf("ended after %v with %v, %v", waited, err, OutcomeOf(err))
			}
		})
	}
}

// TestCompositeRequestsEndWithTheirPatience checks that none of them loops for ever
// while there is no server.
func TestCompositeRequestsEndWithTheirPatience(t *testing.T) {
	for name, do := range map[string]func(context.Context, *Client) error{
		"prove": func(ctx context.Context, c *Client) error { _, err := c.Prove(ctx, 0); return err },
		"create all": func(ctx context.Context, c *Client) error {
			_, _, err := c.CreateAll(ctx, "/a/b", nil, CreateOptions{})
			return err
		},
		"create protected": func(ctx context.Context, c *Client) error {
			_, _, _, err := c.CreateProtected(ctx, "/a", nil, CreateOptions{})
			return err
		},
		"delete all": func(ctx context.Context, c *Client) error {
			_, err := c.DeleteRecursive(ctx, "/a", -1, nil)
			return err
		},
		"credential": func(ctx context.Context, c *Client) error { return c.AddAuth(ctx, "digest", []byte("a:b")) },
	} {
		inBubble(name, t, func(t *testing.T) {
			f := &fake{timeoutMs: 60_000}
			c := f.start(t, nil)
			defer c.Close()
			f.setDown(true)
			synctest.Wait()
			began := time.Now()
			err := do(WithRetryFor(t.Context(), 3*time.Second), c)
			if waited := time.Since(began); !errors.Is(err, ErrNotRetried) || waited != 3*time.Second {
				t.Errorf("ended after %v with %v", waited, err)
			}
			if err := do(WithRetryFor(t.Context(), RetryNever), c); !errors.Is(err, ErrNotRetried) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}
