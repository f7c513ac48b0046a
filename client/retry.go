package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/zk"
)

// RetryNever, as a RetryFor, makes a request fail if it finds no server or its connection is
// lost. Any other negative duration does the same.
const RetryNever time.Duration = -1

// ErrNotRetried marks the error of a request that had no server, or lost it, for longer than its
// RetryFor. Such an error also matches zk.ErrConnectionLoss, and its outcome is NotApplied. For a
// credential, or a delete of DeleteRecursive, the outcome is Unknown if it was sent before.
var ErrNotRetried = errors.New("client: no server for as long as RetryFor allows")

type retryKey struct{}

// WithRetryFor returns a context for requests that are retried for d, whatever
// Options.RetryFor says: 0 is until the context ends, RetryNever never.
func WithRetryFor(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, retryKey{}, d)
}

// retryFor returns how long a request with this context is retried.
func (c *Client) retryFor(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(retryKey{}).(time.Duration); ok {
		return d
	}
	return c.options.RetryFor
}

// patience is how long a request may be without a server. It begins when the request first
// has none, so other requests need not read the clock. A nil patience has no limit.
type patience struct {
	c     *Client
	ctx   context.Context
	begun bool
	limit time.Duration
	until clock.Instant
	timer clock.Timer // nil before it begins, after it has fired, and without a limit
}

// spent reports whether a request that has no server now must be given up.
func (p *patience) spent() bool {
	if p == nil {
		return false
	}
	if !p.begun {
		p.begun, p.limit = true, p.c.retryFor(p.ctx)
		if p.limit > 0 {
			p.until = p.c.clock.Now().Add(p.limit)
			p.timer = p.c.clock.Timer(p.until)
		}
	}
	return p.limit < 0 || p.limit > 0 && p.c.clock.Now() >= p.until
}

// fired returns a channel that is closed when the time is over; nil before it begins and
// after stop.
func (p *patience) fired() <-chan struct{} {
	if p == nil || p.timer == nil {
		return nil
	}
	return p.timer.C()
}

func (p *patience) stop() {
	if p != nil && p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// serverless reports whether a request made now would wait for a server. The caller holds
// Client.mu.
func (c *Client) serverless() bool { return c.err == nil && c.machine.Address() == "" }

// noServer is the error of a request that has waited long enough. The caller holds
// Client.mu.
func (c *Client) noServer() error {
	if c.cause == nil {
		return fmt.Errorf("%w: %w", ErrNotRetried, zk.ErrConnectionLoss)
	}
	return fmt.Errorf("%w: %w: %w", ErrNotRetried, zk.ErrConnectionLoss, c.cause)
}

// mayPass reports whether err is a lost connection, so that the request may be tried again.
func mayPass(err error) bool {
	return isLoss(err) && !errors.Is(err, ErrNotRetried) && !errors.Is(err, errFirstLost)
}
