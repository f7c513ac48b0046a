//go:build linux

package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/test/probe"
	"github.com/conclave-project/conclave/test/servers"
)

// The aims for sessions.
const (
	sessionKiB    = 2.0
	stormAim      = 3 * time.Second
	expiryGapAim  = 50 * time.Millisecond
	connectWindow = 512
	longSession   = 50 * time.Minute
)

func sessions(ctx context.Context, b *bench, t *Table) error {
	for _, f := range []func(context.Context, *bench, *Table) error{idleSessions, sessionRecords, storm, expiries} {
		if err := f(ctx, b, t); err != nil {
			return err
		}
	}
	return nil
}

// idleSessions measures the server's memory for a session with its connection.
func idleSessions(ctx context.Context, b *bench, t *Table) error {
	return b.server(ctx, servers.Options{}, func(s *servers.Server) error {
		c, err := newCrowd(longSession, s.Addr)
		if err != nil {
			return err
		}
		defer c.close()
		before, err := atRest(ctx, s)
		if err != nil {
			return err
		}
		for _, n := range t.withinClients(b.sizes([]int{1_000, 10_000, 100_000}, []int{1_000, 10_000, 50_000, 100_000})) {
			b.say("%d idle sessions", n)
			if err := c.grow(ctx, n, connectWindow); err != nil {
				return err
			}
			after, err := atRest(ctx, s)
			if err != nil {
				return err
			}
			t.flat("memory of an idle session with its connection", n, float64(after-before)/float64(n)/1024, "KiB", sessionKiB)
		}
		return nil
	})
}

// sessionRecords measures the server's memory for a session without a connection, whose
// client is away.
func sessionRecords(ctx context.Context, b *bench, t *Table) error {
	return b.server(ctx, servers.Options{}, func(s *servers.Server) error {
		before, err := atRest(ctx, s)
		if err != nil {
			return err
		}
		made := 0
		for _, n := range b.sizes([]int{10_000, 100_000}, []int{10_000, 100_000, 300_000}) {
			b.say("%d sessions without a connection", n)
			start := time.Now()
			if err := leaveSessions(ctx, s.Addr, n-made, longSession, nil); err != nil {
				return err
			}
			t.flat("time for a session to be opened, 512 at a time", n, micros(time.Since(start))/float64(n-made), "µs", 0)
			made = n
			after, err := atRest(ctx, s)
			if err != nil {
				return err
			}
			t.flat("memory of a session without a connection", n, float64(after-before)/float64(n), "bytes", 0)
		}
		return nil
	})
}

// leaveBatch is how many connections are open at a time while sessions are created and
// left.
const leaveBatch = 8_000

// leaveSessions opens n sessions and closes their connections abruptly. first returns a
// request for each, which is answered before; nil means none.
func leaveSessions(ctx context.Context, addr string, n int, timeout time.Duration, first func(i int) []byte) error {
	for made := 0; made < n; {
		batch := min(leaveBatch, clientsMax(), n-made)
		c, err := newCrowd(timeout, addr)
		if err != nil {
			return err
		}
		err = c.grow(ctx, batch, connectWindow)
		if err == nil && first != nil {
			err = c.sendAll(func(i int) []byte { return first(made + i) })
			if err == nil {
				err = c.until(ctx, func() bool { return c.replies+c.refused >= batch })
			}
		}
		if err == nil && c.refused > 0 {
			err = fmt.Errorf("%d of %d requests refused", c.refused, batch)
		}
		c.close()
		if err != nil {
			return err
		}
		made += batch
	}
	return nil
}

// storm measures how long 10,000 clients of three servers need after a failover until each
// has a connection and has received an answer on it.
func storm(ctx context.Context, b *bench, t *Table) error {
	return b.ensemble(ctx, servers.EnsembleOptions{}, 3, 0, func(e *servers.Ensemble, leader *servers.Member) error {
		var addrs []string
		for _, m := range e.Members {
			addrs = append(addrs, m.Addr)
		}
		c, err := newCrowd(5*time.Minute, addrs...)
		if err != nil {
			return err
		}
		defer c.close()
		c.again = true
		for _, n := range t.withinClients([]int{1_000, 10_000}) {
			b.say("%d clients after a fail-over", n)
			if err := c.grow(ctx, n, connectWindow); err != nil {
				return err
			}
			took, connected, err := stormOnce(ctx, c, e)
			if err != nil {
				return err
			}
			t.aim("fail-over of three servers until all clients are answered", n, took.Seconds(), "s", stormAim.Seconds())
			t.add("clients that had to connect again", n, float64(connected), "")
		}
		return nil
	})
}

// stormOnce kills the leader, and returns the time until all clients have an answer, and
// how many reconnected. After that it restarts the server.
func stormOnce(ctx context.Context, c *crowd, e *servers.Ensemble) (took time.Duration, connected int, err error) {
	leader, err := e.AwaitLeader(ctx)
	if err != nil {
		return 0, 0, err
	}
	refused := c.refused
	ask := probe.Request(1, probe.OpExists, probe.PathWatchBody("/", false))
	var failed error
	c.attachedTo = func(i int) {
		connected++
		if err := c.send(i, ask); err != nil {
			failed = err
		}
	}
	defer func() { c.attachedTo = nil }()
	for i := range c.clients {
		c.clients[i].replies = 0
	}
	start := time.Now()
	if err := leader.Kill(); err != nil {
		return 0, 0, err
	}
	if err := c.sendAll(func(int) []byte { return ask }); err != nil {
		return 0, 0, err
	}
	answered := func() bool {
		for i := range c.clients {
			if c.clients[i].replies == 0 {
				return false
			}
		}
		return true
	}
	if err := c.until(ctx, answered); err != nil {
		return 0, 0, err
	}
	took = time.Since(start)
	if failed == nil && c.refused > refused {
		failed = fmt.Errorf("%d sessions or requests refused", c.refused-refused)
	}
	if failed != nil {
		return 0, 0, failed
	}
	return took, connected, leader.Start(ctx)
}

// expiries measures the longest time that a writer waits while many sessions expire at
// once.
func expiries(ctx context.Context, b *bench, t *Table) error {
	for _, n := range b.sizes(nil, []int{10_000, 100_000}) {
		if err := expiry(ctx, b, t, n, false); err != nil {
			return err
		}
	}
	for _, n := range b.sizes([]int{10_000, 50_000}, []int{10_000, 100_000}) {
		if err := expiry(ctx, b, t, n, true); err != nil {
			return err
		}
	}
	return nil
}

// expiryTime returns the timeout of n sessions that should expire at once: none may expire
// before all are created. A server that starts gives each of them the whole timeout again.
func expiryTime(n int) time.Duration {
	return 8*time.Second + time.Duration(n)*500*time.Microsecond
}

// expiry lets n sessions expire at once, each with an ephemeral or without.
func expiry(ctx context.Context, b *bench, t *Table, n int, owned bool) error {
	what, first := "sessions that end at once", (func(i int) []byte)(nil)
	if owned {
		what = "sessions with an ephemeral that end at once"
		first = func(i int) []byte {
			return probe.Request(1, probe.OpCreate, probe.CreateBody(fmt.Sprintf("/e%08d", i), nil, probe.World, probe.Ephemeral))
		}
	}
	return b.server(ctx, servers.Options{}, func(s *servers.Server) error {
		b.say("%d %s", n, what)
		if err := leaveSessions(ctx, s.Addr, n, expiryTime(n), first); err != nil {
			return err
		}
		s.Crash()
		if err := s.Restart(ctx); err != nil {
			return err
		}
		there, err := sessionsOf(s)
		if err != nil {
			return err
		}
		p, err := startPulse(s.Addr, 0, setting("/writer"))
		if err != nil {
			return err
		}
		defer p.end()
		quiet, ending, err := endOf(ctx, s, p, there)
		if err != nil {
			return err
		}
		t.aim(what+": a writer waits at most", there, ms(ending.Max()), "ms", ms(expiryGapAim))
		t.add(what+": before", there, ms(quiet.Max()), "ms")
		return nil
	})
}

// endOf waits until all sessions except the writer's have expired, and returns how long the
// writer waited before the first expiry, and during the expiries.
func endOf(ctx context.Context, s *servers.Server, p *pulse, there int) (quiet, ending *loadgen.Histogram, err error) {
	quiet = &loadgen.Histogram{}
	for end := time.Now().Add(expiryTime(there) + time.Minute); ; {
		left, err := sessionsOf(s)
		if err != nil {
			return nil, nil, err
		}
		if left <= 1 {
			break
		}
		if left > there {
			lap, err := p.reset()
			if err != nil {
				return nil, nil, err
			}
			quiet.Merge(lap)
		}
		if time.Now().After(end) {
			return nil, nil, fmt.Errorf("%d of %d sessions are left", left, there)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, nil, err
		}
	}
	ending, err = p.reset()
	return quiet, ending, err
}

// sessionsOf returns how many sessions a server has.
func sessionsOf(s *servers.Server) (int, error) {
	m, err := servers.Metrics(s.Addr)
	return int(m["zk_global_sessions"]), err
}
