//go:build linux && robust

package robust

import (
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/probe"
)

const (
	watchers      = 100
	watchedZnodes = 10_000
	watchesOnWay  = 500 // reads with a watch that are in flight at a time
	eventChanged  = 3
)

func watched(i int) string { return fmt.Sprintf("/watched/%05d", i) }

// A million watches: each of a hundred connections watches all of ten thousand znodes. Then
// all znodes change, and each connection must be notified of each change exactly once.
func TestAMillionWatchesFireAndNoneIsLost(t *testing.T) {
	s := start(t)
	c := dial(t, s)
	_, err := c.Create("/watched", nil, probe.World, probe.Persistent)
	must(t, err)
	pipeline(t, c, probe.OpCreate, func(i int) []byte {
		return probe.CreateBody(watched(i), nil, probe.World, probe.Persistent)
	})
	conns := make([]*probe.Conn, watchers)
	for i := range conns {
		conns[i] = dial(t, s)
	}
	before, started := rss(t, s), time.Now()
	inParallel(t, 8, watchers, func(i int) error {
		return pipelined(conns[i], probe.OpExists, func(n int) []byte { return probe.PathWatchBody(watched(n), true) })
	})
	set, grown := time.Since(started), rss(t, s)-before
	t.Logf("%d watches set in %v, %d bytes each", watchers*watchedZnodes, set, grown/(watchers*watchedZnodes))
	started = time.Now()
	errs := together(watchers+1, func(i int) error {
		if i == watchers {
			return pipelined(c, probe.OpSetData, func(n int) []byte { return probe.SetDataBody(watched(n), []byte("x"), 0) })
		}
		return receiveAll(conns[i])
	})
	for _, err := range errs {
		t.Error(err)
	}
	t.Logf("all fired in %v", time.Since(started))
	checkAlive(t, s)
}

// receiveAll reads until it has an event for each znode, then waits for one more reply:
// further events would come before that.
func receiveAll(c *probe.Conn) error {
	for len(c.Events) < watchedZnodes {
		if err := c.ReceiveEvent(); err != nil {
			return fmt.Errorf("after %d events: %w", len(c.Events), err)
		}
	}
	if err := c.Ping(); err != nil {
		return err
	}
	if len(c.Events) != watchedZnodes {
		return fmt.Errorf("%d events for %d watches", len(c.Events), watchedZnodes)
	}
	for i, e := range c.Events {
		// One writer changed them in order, and events keep the order of changes.
		if e.Type != eventChanged || e.Path != watched(i) {
			return fmt.Errorf("event %d is %+v", i, e)
		}
	}
	return nil
}

func pipeline(t *testing.T, c *probe.Conn, op int32, body func(i int) []byte) {
	t.Helper()
	must(t, pipelined(c, op, body))
}

// pipelined sends a request for each of the watched znodes, many in flight.
func pipelined(c *probe.Conn, op int32, body func(i int) []byte) error {
	for sent, seen := 0, 0; seen < watchedZnodes; seen++ {
		for ; sent < watchedZnodes && sent-seen < watchesOnWay; sent++ {
			if _, err := c.Send(op, body(sent)); err != nil {
				return err
			}
		}
		reply, err := c.Receive()
		if err != nil {
			return err
		}
		if reply.Code != 0 {
			return fmt.Errorf("request %d: %w", seen, reply.Code)
		}
	}
	return nil
}
