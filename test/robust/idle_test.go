//go:build linux && robust

package robust

import (
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/probe"
)

const (
	idleSessions = 10_000

	// idleBytesMax is the largest permitted cost of an idle session in resident memory.
	idleBytesMax = 8 << 10

	// dialers open connections concurrently; more would only queue at the listener.
	dialers = 16
)

func TestTenThousandIdleSessionsCostLittleAndNoneIsLost(t *testing.T) {
	s := start(t)
	warm(t, s.Addr)
	before := rss(t, s)
	conns := make([]*probe.Conn, idleSessions)
	started := time.Now()
	inParallel(t, dialers, idleSessions, func(i int) error {
		c, err := probe.Dial(s.Addr, sessionTimeout)
		conns[i] = c
		return err
	})
	opened := time.Since(started)
	defer func() {
		for _, c := range conns {
			c.Cut()
		}
	}()
	each := (rss(t, s) - before) / idleSessions
	// Two rounds of pings, a third of the timeout apart, as clients do: between them, the
	// memory is that of live sessions.
	for range 2 {
		awaittest.RealTime(sessionTimeout/6, "the pace of the pings")
		inParallel(t, dialers, idleSessions, func(i int) error { return conns[i].Ping() })
		each = max(each, (rss(t, s)-before)/idleSessions)
	}
	t.Logf("%d sessions in %v, %d bytes each; the server had %d MiB before", idleSessions, opened, each, before>>20)
	if promises(s.Kind) && each > idleBytesMax {
		t.Errorf("an idle session costs %d bytes, more than %d", each, idleBytesMax)
	}
	// None was lost: each can still write.
	c := dial(t, s)
	_, err := c.Create("/idle", nil, probe.World, probe.Persistent)
	must(t, err)
	inParallel(t, dialers, idleSessions, func(i int) error {
		_, err := conns[i].Create(fmt.Sprintf("/idle/%d", i), nil, probe.World, probe.Ephemeral)
		return err
	})
	stat, err := c.Exists("/idle")
	if err != nil || stat.NumChildren != idleSessions {
		t.Errorf("%d of %d sessions have their ephemeral, %v", stat.NumChildren, idleSessions, err)
	}
	checkAlive(t, s)
}

// warm opens and ends some sessions, so memory that any server allocates for its first
// requests does not count as a cost of the sessions.
func warm(t *testing.T, addr string) {
	t.Helper()
	inParallel(t, dialers, 200, func(int) error {
		c, err := probe.Dial(addr, sessionTimeout)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// inParallel calls f for each i below n, from several goroutines.
func inParallel(t *testing.T, goroutines, n int, f func(i int) error) {
	t.Helper()
	errs := together(goroutines, func(g int) error {
		for i := g; i < n; i += goroutines {
			if err := f(i); err != nil {
				return fmt.Errorf("number %d: %w", i, err)
			}
		}
		return nil
	})
	for _, err := range errs {
		t.Fatal(err)
	}
}
