package zookeeper_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// breaking is a link that, once it is armed, breaks when a candidate of priority 7 is
// requested, and ends the request.
type breaking struct {
	armed atomic.Pointer[context.CancelFunc]
}

type breakingConn struct {
	net.Conn
	by *breaking
}

func (b *breaking) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &breakingConn{conn, b}, err
}

func (c *breakingConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("-p7-latch-")) {
		if end := c.by.armed.Swap(nil); end != nil {
			(*end)()
			_ = c.Close()
			return 0, net.ErrClosed
		}
	}
	return c.Conn.Write(p)
}

// TestRivalIsLookedForAgainAfterALookThatFailed: the queue does not change afterwards, so
// nothing else would reveal the candidate.
func TestRivalIsLookedForAgainAfterALookThatFailed(t *testing.T) {
	addr := startServerFor(t, time.Minute)
	var link breaking
	backend, err := zookeeper.New(addr, zookeeper.Options{Client: client.Options{Dialer: link.dial}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	grant, err := backend.Acquire(awaittest.Within(t), claim("a", 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	rival, other := claim("z", 20*time.Second), open(t, addr)
	rival.Priority = 7
	go func() { _, _ = other.Acquire(t.Context(), rival) }()
	awaitQueue(t, operator(t, addr), 2)
	ctx, cancel := context.WithCancel(awaittest.Within(t))
	defer cancel()
	link.armed.Store(&cancel)
	_, _ = backend.Renew(ctx, grant) // what it proves counts, even when nobody waits
	if link.armed.Load() != nil {
		t.Fatal("the fault was not injected")
	}
	if again, err := backend.Renew(awaittest.Within(t), grant); err != nil || again.Rival != "z" {
		t.Errorf("the rival is %q, %v", again.Rival, err)
	}
}
