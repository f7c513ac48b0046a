package client

import (
	"context"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/zk"
)

// ProvenUntil returns until when the servers are certain to keep the session, and with it its
// ephemeral znodes. It returns false while nothing is proven, and once this client closes the
// session. Every successful write of this client moves it. Reads and pings do not, because a
// server that is partitioned from its leader goes on answering them while the others expire the
// session. See Prove.
//
// It relies on the leader's clock, whose rate must be that of this machine (leave a margin: five
// percent of the timeout is far more than quartz needs), on a leader that talks to its followers
// every half tick, as it does while it runs, and on a timeout of two ticks or more, which is the
// servers' own limit unless minSessionTimeout was lowered. If the client uses an Apache observer
// that follows an observer master, the leader learns of it half a tick later: the timeout must
// then be four ticks.
func (c *Client) ProvenUntil() (clock.Instant, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ms, proven := c.machine.ProvenMs()
	return clock.FromMillis(ms), proven
}

// Prove has a quorum of the servers decide a transaction of this session that changes nothing,
// and returns until when the session is then proven. As a rule that is two thirds of the timeout
// from now, and less after a pause of this client. A write that was sent at most maxAge ago also
// counts, so many callers that need a proof of one session can share it; simultaneous calls share
// one.
//
// Everything that was decided before that write has then been seen: its watch events are
// delivered when Prove returns.
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

// decideNothing makes a transaction without effect, which may be repeated. It is decided
// even if it fails because the permission to read "/" is missing.
func (c *Client) decideNothing(ctx context.Context) error {
	check := zk.Request{Op: zk.OpCheck, Path: zk.RootPath, Version: -1}
	for {
		_, err := c.do(ctx, &zk.Request{Op: zk.OpMulti, Ops: []zk.Request{check}}, nil, "")
		if !mayPass(err) || ctx.Err() != nil {
			return err
		}
	}
}
