package cache

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// breaker dials like net.Dialer. Once armed, it closes a connection instead of writing the
// second multiRead: in a walk, this is the first one beyond the root's.
type breaker struct {
	mu    sync.Mutex
	armed bool
	reads int // written since it was armed
	last  net.Conn
}

type breakable struct {
	net.Conn
	b *breaker
}

func (b *breaker) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = conn
	return breakable{conn, b}, err
}

// arm also closes the current connection.
func (b *breaker) arm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = true
	_ = b.last.Close()
}

func (b *breaker) isArmed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.armed
}

func (c breakable) Write(frames []byte) (int, error) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.b.armed && len(frames) >= 12 && zk.Op(frames[11]) == zk.OpMultiRead {
		if c.b.reads++; c.b.reads == 2 {
			c.b.armed = false
			_ = c.Conn.Close()
			return 0, net.ErrClosed
		}
	}
	return c.Conn.Write(frames)
}

// TestReadThatHasFailedEndsNoLaterWalk (cache-C2): a walk loses its connection while some
// of its reads wait because too many are in progress. They are sent on the next connection,
// where another walk begins, and the failed reads are collected only after that.
func TestReadThatHasFailedEndsNoLaterWalk(t *testing.T) {
	addr, ctx, network := serve(t), awaittest.Within(t), &breaker{}
	writer := dial(t, addr, client.Options{})
	reader := dial(t, addr, client.Options{Dialer: network.dial, InFlightMax: 8, BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond})
	for i := range 100 {
		_, _, err := writer.CreateAll(ctx, fmt.Sprintf("/top/%03d", i), nil, client.CreateOptions{})
		must(t, err)
	}
	k, err := New(ctx, reader, "/top", Options{})
	must(t, err)
	defer k.Close()
	network.arm()
	awaittest.Until(t, "the walk has lost its connection", func() bool { return !network.isArmed() })
	must(t, writer.Delete(ctx, "/top/007", -1))
	for k.Sync(ctx) != nil {
		must(t, ctx.Err())
	}
	if _, ok := k.Get("/top/007"); ok || !k.Whole() {
		t.Errorf("after Sync the copy has a znode that is gone: %t; it is whole: %t", ok, k.Whole())
	}
}

// TestWalkThatHasBegunSinceOutlivesAFailedRead is the same without a server.
func TestWalkThatHasBegunSinceOutlivesAFailedRead(t *testing.T) {
	for what, walk := range map[string]bool{"of a walk": true, "of an event": false} {
		k := unfollowed(t)
		k.most = 1
		k.begin()
		if !walk {
			k.take()
			k.onEvent(zk.Event{Type: zk.EventNodeDataChanged, Path: "/top/a"})
		}
		failed := k.take()[0]
		k.onEvent(zk.Event{Type: zk.EventNone}) // of the next connection
		k.apply(failed, zk.Result{}, zk.ErrConnectionLoss)
		if next := k.take(); len(next) != 1 || next[0].walk == nil || next[0].walk != k.walk {
			t.Errorf("a read %s has failed late, and the walk that had begun meanwhile is over: %+v", what, next)
		}
	}
}
