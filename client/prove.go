package client

import (
	"context"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/zk"
)

// ProvenUntil returns until when the servers surely keep the session, and with
// it its ephemeral znodes. It reports false while nothing is proven, and from when
// this client closes the session. Every write of this client that has succeeded moves it;
// reads and pings do not, as a server that is partitioned from its leader goes on
// answering them while the others expire the session. See Prove.
//
// It rests on the leader's clock, whose rate must be that of this machine
// (leave a margin: five percent of the timeout are far more than quartz needs),
// on a leader that talks to its followers every half tick, as it does while it
// runs, and on a timeout of two ticks or more, which is the servers' own limit
// unless minSessionTimeout was lowered. Of a client at an observer of Apache's that follows
// an observer master the leader learns half a tick later: its timeout must be four ticks.
func (c *Client) ProvenUntil() (clock.Instant, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ms, proven := c.machine.ProvenMs()
	return clock.FromMillis(ms), proven
}

// Prove has a quorum of the servers decide a transaction of this session that
// changes nothing, and returns until when the session is proven then. That is
// two thirds of the timeout from now as a rule, and less after a pause of this
// client. A write that was sent at most maxAge ago does as well, so that many
// callers that need a proof of one session share it; calls at the same time share one.
//
// All that was decided before that write has been seen then: the watch events of
// it are delivered when Prove returns.
func (c *Client) Prove(ctx context.Context, maxAge time.Duration) (clock.Instant, error) {
	asked := c.clock.Now()
	select {
	case c.proving <- struct{}{}:
	case <-ctx.Done():
		return 0, &Error{zk.OpMulti, "", ctx.Err(), NotApplied}
	}
	defer func() { <-c.proving }()
	c.mu.Lock()
	decided := clock.FromMillis(c.machine.DecidedMs())
	c.mu.Unlock()
	if decided == 0 || decided < asked.Add(-maxAge) {
		if err := c.decideNothing(ctx); err != nil {
			return 0, err
		}
	}
	until, _ := c.ProvenUntil()
	return until, nil
}

// decideNothing makes a transaction that may be repeated at will. It is decided
// even if it fails, for want of the right to read "/".
func (c *Client) decideNothing(ctx context.Context) error {
	check := zk.Request{Op: zk.OpCheck, Path: zk.RootPath, Version: -1}
	for {
		_, err := c.do(ctx, &zk.Request{Op: zk.OpMulti, Ops: []zk.Request{check}}, nil, "")
		if !mayPass(err) || ctx.Err() != nil {
			return err
		}
	}
}
