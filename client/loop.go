package client

import (
	"math"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/clientsession"
)

// step gives the machine an event and carries out the effects. The caller holds Client.mu.
func (c *Client) step(e clientsession.Event) {
	c.stepAt(c.clock.Now().Millis(), e, nil)
}

// stepAt is step with a known time, for several events at once: reading the clock is a
// system call. A nowMs of 0 means that no time has passed. Calls that a reply has completed
// are appended to ready, unless it is nil; the caller then has to decode and wake them.
func (c *Client) stepAt(nowMs int64, e clientsession.Event, ready *[]*call) {
	c.event = e // so it is not allocated each time
	effects := c.machine.Step(nowMs, &c.event)
	lost := false // a write of a Future was lost; the calls of a connection end in the order of submission
	for i := range effects {
		e := &effects[i]
		if e.Kind == clientsession.Complete && !e.Replied {
			call := e.Call.Owner.(*call)
			call.follows = lost
			lost = lost || call.future && call.Request.Op.IsWrite()
		}
		c.carryOut(e, ready)
	}
	if c.machine.WakeMs() < c.timerMs {
		signal(c.kick)
	}
	if c.space != nil && !c.full() {
		close(c.space)
		c.space = nil
	}
	if c.lost != nil && c.serverless() {
		close(c.lost)
		c.lost = nil
	}
}

// post is step for callers that do not hold Client.mu.
func (c *Client) post(e clientsession.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step(e)
}

func (c *Client) carryOut(e *clientsession.Effect, ready *[]*call) {
	switch e.Kind {
	case clientsession.Resolve:
		c.group.Go(c.resolve)
	case clientsession.Dial:
		c.link = newLink(c, e.Conn, e.Address, e.WaitMs)
		c.group.Go(c.link.run)
	case clientsession.Greet:
		c.link.greet(e)
	case clientsession.Send:
		c.link.send(e.Request)
	case clientsession.Drop:
		c.link.drop()
	case clientsession.Complete:
		done := e.Call.Owner.(*call)
		done.complete(e)
		if e.Replied && ready != nil {
			*ready = append(*ready, done)
		} else {
			done.wake()
		}
	case clientsession.Notify:
		e.Watch.Owner.(*Watch).notify(e.Watched)
	case clientsession.EndWatch:
		e.Watch.Owner.(*Watch).end(e.Err)
	case clientsession.EnterState:
		c.enterState(State(e.State), e.Err)
	case clientsession.Probe:
		address := e.Address
		c.group.Go(func() { c.probe(address) })
	}
}

// full reports whether a further request must wait. The caller holds Client.mu.
func (c *Client) full() bool {
	return c.machine.Backlog() >= c.options.InFlightMax || c.link != nil && len(c.link.out) > outBytesMax
}

// keepTime is the goroutine that sends the machine a Tick when it wants one.
func (c *Client) keepTime() {
	for {
		c.mu.Lock()
		c.timerMs = c.machine.WakeMs()
		at := c.timerMs
		c.mu.Unlock()
		var fired <-chan struct{}
		var timer clock.Timer
		if at != math.MaxInt64 {
			timer = c.clock.Timer(clock.FromMillis(at))
			fired = timer.C()
		}
		select {
		case <-fired:
			c.post(clientsession.Event{Kind: clientsession.Tick})
		case <-c.kick:
		case <-c.done:
		}
		if timer != nil {
			timer.Stop()
		}
		select {
		case <-c.done:
			return
		default:
		}
	}
}

// signal puts an element into a channel of capacity 1 unless it has one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
