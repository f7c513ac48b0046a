package etcd

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// leases is the part of etcd that extends leases.
type leases struct {
	pb.UnimplementedLeaseServer
	opened, open atomic.Int64
	unknown      atomic.Bool // no lease is known any longer

	mu     sync.Mutex
	broken func(context.Context) error // handles each request in place of an answer
}

func (l *leases) set(broken func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = broken
}

func (l *leases) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	l.opened.Add(1)
	l.open.Add(1)
	defer l.open.Add(-1)
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		l.mu.Lock()
		broken := l.broken
		l.mu.Unlock()
		if broken != nil {
			return broken(stream.Context())
		}
		answer := &pb.LeaseKeepAliveResponse{ID: request.ID, TTL: 7}
		if l.unknown.Load() {
			answer.TTL = 0
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// startLeases starts the server, and returns a client of it.
func startLeases(t *testing.T) (*leases, *clientv3.Client) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, l := grpc.NewServer(), &leases{}
	pb.RegisterLeaseServer(server, l)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{listener.Addr().String()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return l, client
}

// TestRenewalsShareAStream (etcd-D7): for each stream, the client authenticates with its user and
// password, and etcd checks them with bcrypt and an append to its Raft log. Concurrent renewals do
// not wait for each other.
func TestRenewalsShareAStream(t *testing.T) {
	l, client := startLeases(t)
	s := newStore(client, Options{})
	for i := range 20 {
		before := clock.Now()
		lease, err := s.Entry(t.Context(), election.Claim{Nonce: string(rune('a' + i))}).Renew(awaittest.Within(t))
		if err != nil || lease.Length != 7*time.Second || lease.Sent < before || lease.Sent > clock.Now() {
			t.Fatalf("%+v, %v", lease, err)
		}
	}
	if got := l.opened.Load(); got != 1 {
		t.Errorf("%d streams for renewals one by one", got)
	}
	var group sync.WaitGroup
	for i := range 4 * idleMax {
		group.Go(func() {
			if _, err := s.Entry(t.Context(), election.Claim{Nonce: string(rune('a' + i))}).Renew(awaittest.Within(t)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	awaittest.Until(t, "no more than some streams are kept", func() bool { return l.open.Load() <= idleMax })
	s.keepAlives.close()
	awaittest.Until(t, "no stream is left", func() bool { return l.open.Load() == 0 })
}

// TestRenewalOutlivesABrokenStream: the server of a stream that was kept may have ended in the
// meantime.
func TestRenewalOutlivesABrokenStream(t *testing.T) {
	l, client := startLeases(t)
	s := newStore(client, Options{})
	defer s.keepAlives.close()
	entry := s.Entry(t.Context(), election.Claim{Nonce: "n"})
	renew := func() error { _, err := entry.Renew(awaittest.Within(t)); return err }
	if err := renew(); err != nil {
		t.Fatal(err)
	}
	var failures atomic.Int64
	l.set(func(context.Context) error {
		failures.Add(1)
		l.set(nil) // only once
		return status.Error(codes.Unavailable, "the server ends")
	})
	if err := renew(); err != nil || failures.Load() != 1 {
		t.Errorf("over a stream that had broken: %v, %d failures", err, failures.Load())
	}
	l.set(func(context.Context) error {
		failures.Add(1)
		return status.Error(codes.Unavailable, "there is no leader")
	})
	failures.Store(0)
	if err := renew(); err == nil || failures.Load() != 2 {
		t.Errorf("from a server that refuses: %v, %d tries", err, failures.Load())
	}
	l.set(nil)
	l.unknown.Store(true)
	if err := renew(); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("of a lease that has ended: %v", err)
	}
}

// TestSilentStreamIsNotUsedAgain: a server that is paused, or a connection that has died, fails one
// renewal in its time. A late answer to that renewal does not answer the next one.
func TestSilentStreamIsNotUsedAgain(t *testing.T) {
	l, client := startLeases(t)
	s := newStore(client, Options{})
	defer s.keepAlives.close()
	entry := s.Entry(t.Context(), election.Claim{Nonce: "n"})
	if _, err := entry.Renew(awaittest.Within(t)); err != nil {
		t.Fatal(err)
	}
	l.set(func(ctx context.Context) error { <-ctx.Done(); return nil })
	limited, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := entry.Renew(limited); err == nil || limited.Err() == nil {
		t.Errorf("without an answer: %v", err)
	}
	awaittest.Until(t, "the stream has ended", func() bool { return l.open.Load() == 0 })
	l.set(nil)
	if _, err := entry.Renew(awaittest.Within(t)); err != nil {
		t.Errorf("after that: %v", err)
	}
}
