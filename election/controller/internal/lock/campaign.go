package lock

import (
	"context"
	"errors"
	"time"

	"github.com/conclave-project/conclave/election"
)

// campaign is one call of the Elector's Run.
type campaign struct {
	cancel context.CancelFunc // of Run's context
	led    chan struct{}      // closed when elected
	ended  chan struct{}      // closed when Run has returned
	finish chan struct{}      // closed when the function may return
	other  chan struct{}      // of capacity 1: contains a value when another leader was seen

	// Written before led is closed.
	lead  election.Leadership
	since time.Time
	// Written before ended is closed.
	err error

	// Guarded by the Lock's mutex.
	taken   bool // client-go was told that it leads
	refused bool // the last answer was no
	over    bool // finish is closed
	stuck   bool // OnStuck was called
	runOut  bool // the leadership must not be released
	seen    string
	lock    *Lock
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// campaign returns the campaign that is under way, or begins one.
func (l *Lock) campaign(ctx context.Context) (*campaign, error) {
	for {
		l.mu.Lock()
		c := l.now
		if c == nil || isClosed(c.ended) {
			c = l.begin(ctx)
			l.now = c
		}
		over := c.over
		l.mu.Unlock()
		if !over {
			return c, nil
		}
		select { // an earlier loop's campaign, whose leadership expires
		case <-c.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// begin campaigns for a client-go loop. Until the loop was told that it leads, only the end
// of its context shows that it has ended (lock-K4).
func (l *Lock) begin(ctx context.Context) *campaign {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &campaign{lock: l, cancel: cancel, led: make(chan struct{}), ended: make(chan struct{}),
		finish: make(chan struct{}), other: make(chan struct{}, 1)}
	forget := context.AfterFunc(ctx, func() { l.endUntaken(c) })
	if l.options.Others {
		go c.observe(run)
	}
	go func() {
		defer cancel()
		defer forget()
		if c.err = l.elector.Run(run, c.hold); c.err == nil {
			c.err = election.ErrNotLeader
		}
		close(c.ended)
	}()
	return c
}

// hold is the function of the leadership: it lasts as long as client-go's function.
func (c *campaign) hold(ctx context.Context, lead election.Leadership) error {
	c.lead, c.since = lead, time.Now()
	if on := c.lock.options.OnElected; on != nil {
		on(ctx, lead)
	}
	close(c.led)
	select {
	case <-c.finish:
	case <-ctx.Done():
		c.lock.endUntaken(c)
		if lost := (*election.LostError)(nil); !c.lock.options.Finished && errors.As(context.Cause(ctx), &lost) &&
			lost.Reason != election.ReasonUnhealthy { // an unhealthy candidate keeps its time to end
			c.lock.stuck(lead)
		}
		<-c.finish
	}
	c.lock.mu.Lock()
	runOut := c.runOut
	c.lock.mu.Unlock()
	for clock := c.lock.elector.Options().Clock; runOut && lead.Remaining() > 0; {
		<-clock.Timer(lead.Deadline()).C()
	}
	return nil
}

// observe tells Get about other leaders.
func (c *campaign) observe(ctx context.Context) {
	for view := range c.lock.elector.Observe(ctx) {
		if view.Err != nil || view.Leader == "" || view.Leader == c.lock.elector.ID() {
			continue
		}
		c.lock.mu.Lock()
		news := c.seen != view.Leader
		c.seen = view.Leader
		c.lock.mu.Unlock()
		if news {
			select {
			case c.other <- struct{}{}:
			default: // Get has not taken the last value, and will see this leader
			}
		}
	}
}

func (c *campaign) leader() string {
	c.lock.mu.Lock()
	defer c.lock.mu.Unlock()
	return c.seen
}

func (l *Lock) isTaken(c *campaign) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.taken
}

// end lets the function of the current campaign return, and returns the campaign, nil if
// there is none.
func (l *Lock) end(runOut bool) *campaign {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		l.now.end(runOut)
	}
	return l.now
}

// endUntaken ends a campaign that was never reported to client-go.
func (l *Lock) endUntaken(c *campaign) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.taken {
		c.end(false)
	}
}

// end is end of Lock for one campaign. The Lock's mutex is held.
func (c *campaign) end(runOut bool) {
	if c.over {
		return
	}
	c.over, c.runOut = true, runOut && c.taken
	c.cancel()
	close(c.finish)
}
