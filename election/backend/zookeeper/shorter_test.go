package zookeeper_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// shortened is a connection whose server, once it is told to, grants a shorter timeout
// in its handshake: the timeout is the second field after the length.
type shortened struct {
	net.Conn
	toMs    *atomic.Int32
	greeted bool
}

func (s *shortened) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if ms := s.toMs.Load(); !s.greeted && n >= 12 && ms > 0 {
		b[8], b[9], b[10], b[11] = 0, 0, byte(ms>>8), byte(ms)
	}
	s.greeted = s.greeted || n >= 12
	return n, err
}

// TestLeadershipEndsWhenItsSessionGetsShorter: with the shorter timeout, ZooKeeper's
// leader may end a session before the deadline that the longer one promised.
func TestLeadershipEndsWhenItsSessionGetsShorter(t *testing.T) {
	addr := startServer(t)
	var toMs atomic.Int32
	var last atomic.Pointer[net.Conn]
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		last.Store(&conn)
		return &shortened{Conn: conn, toMs: &toMs}, err
	}
	backend, err := zookeeper.New(addr, zookeeper.Options{Client: client.Options{Dialer: dial}})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	grant, err := backend.Acquire(awaittest.Within(t), claim("a", 4*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	toMs.Store(int32(grant.Lease.Milliseconds() / 3))
	(*last.Load()).Close()
	select {
	case <-grant.Lost:
	case <-awaittest.Within(t).Done():
		t.Fatal("a leadership whose session got shorter goes on")
	}
	if left := grant.Sent.Add(grant.Lease).Sub(clock.Now()); left < 0 {
		t.Errorf("it ended %v after its lease, so this shows nothing", -left)
	}
}
