package zookeeper_test

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/servertest"
)

// childMain, if not nil, reports whether this process is a child of a kind other
// than electiontest's, and does what the child was started for.
var childMain func(open func(url string) (election.Backend, error)) (child bool, code int)

func TestMain(m *testing.M) {
	open := func(url string) (election.Backend, error) { return zookeeper.New(url, zookeeper.Options{}) }
	if childMain != nil {
		if child, code := childMain(open); child {
			os.Exit(code)
		}
	}
	os.Exit(electiontest.Main(m, open))
}

// startServer runs a Conclave server on a memory disk until the test ends. It
// grants no session longer than two seconds.
func startServer(t testing.TB) string { return startServerFor(t, 0) }

// startServerFor is startServer with a different longest session.
func startServerFor(t testing.TB, sessionMax time.Duration) string {
	t.Helper()
	return servertest.Start(t, func(config *server.Config) {
		config.TickTime, config.ConnsPerIPMax, config.SessionMax = 100*time.Millisecond, 0, sessionMax
	})
}

func open(t testing.TB, url string) election.Backend {
	t.Helper()
	backend, err := zookeeper.New(url, zookeeper.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	return backend
}

func TestZooKeeperBackendPassesTheSuiteOnConclave(t *testing.T) {
	long := func(t testing.TB) string { return startServerFor(t, time.Minute) } // not all grants are renewed
	electiontest.Run(t, electiontest.Suite{Open: open, OpenCut: openCut, URL: long})
}

// wire is a link that can be disconnected for good: what is sent is dropped,
// what arrives is not seen, and no new connection is made.
type wire struct {
	cut  chan struct{}
	once sync.Once
}

type wireConn struct {
	net.Conn
	wire *wire
}

func openCut(t testing.TB, url string) (election.Backend, func()) {
	t.Helper()
	w := &wire{cut: make(chan struct{})}
	backend, err := zookeeper.New(url, zookeeper.Options{Client: client.Options{Dialer: w.dial}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	return backend, func() { w.once.Do(func() { close(w.cut) }) }
}

func (w *wire) isCut() bool {
	select {
	case <-w.cut:
		return true
	default:
		return false
	}
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if w.isCut() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	return &wireConn{conn, w}, err
}

func (c *wireConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.wire.isCut() {
			return n, err
		}
	}
}

func (c *wireConn) Write(p []byte) (int, error) {
	if c.wire.isCut() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}
