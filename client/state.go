package client

import (
	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// State is the state of a session as a program sees it.
type State uint8

// The states. Lost, AuthFailed and Closed are final.
const (
	// Connecting: no server has been reached yet.
	Connecting = State(clientsession.Connecting)
	// Connected: attached to a server.
	Connected = State(clientsession.Connected)
	// ReadOnly: attached to a server that is partitioned from its quorum.
	ReadOnly = State(clientsession.ReadOnly)
	// Suspended: attached to no server; the session may live on.
	Suspended = State(clientsession.Suspended)
	// Lost: the session has expired, or must be assumed to have expired.
	Lost = State(clientsession.LostState)
	// AuthFailed: a server has refused a credential.
	AuthFailed = State(clientsession.AuthFailed)
	// Closed: Close or Detach was called.
	Closed = State(clientsession.Closed)
)

// String returns the state as text.
func (s State) String() string { return clientsession.State(s).String() }

// Final reports whether s is never left.
func (s State) Final() bool { return clientsession.State(s).Final() }

// SessionEvent is a change of the session's state.
type SessionEvent struct {
	State   State
	Session zk.SessionID
	Server  string // in use, "" if none
	Err     error  // why the last connection or the session has ended; else nil
}

// Subscription follows the session's state.
type Subscription struct {
	c      *Client
	events chan SessionEvent
}

// subscriptionEvents is how many states are kept for a slow reader.
const subscriptionEvents = 16

// Subscribe follows the session's state from now on; the first event is the current state. A
// reader that falls behind loses the oldest states, never the newest.
func (c *Client) Subscribe() *Subscription {
	s := &Subscription{c, make(chan SessionEvent, subscriptionEvents)}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.put(c.sessionEvent(State(c.machine.State()), c.err))
	if c.err != nil {
		close(s.events)
		return s
	}
	c.subscribers = append(c.subscribers, s)
	return s
}

// Events returns the states. It is closed after a final one, and by Close.
func (s *Subscription) Events() <-chan SessionEvent { return s.events }

// Close ends the subscription.
func (s *Subscription) Close() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for i, other := range s.c.subscribers {
		if other == s {
			s.c.subscribers = append(s.c.subscribers[:i], s.c.subscribers[i+1:]...)
			close(s.events)
			return
		}
	}
}

// put adds an event; if there is no space, it replaces the oldest one. The caller holds
// Client.mu, so there is only one sender.
func (s *Subscription) put(event SessionEvent) {
	for {
		select {
		case s.events <- event:
			return
		default:
		}
		select {
		case <-s.events:
		default:
		}
	}
}

func (c *Client) sessionEvent(state State, err error) SessionEvent {
	id, _ := c.machine.Session()
	return SessionEvent{state, id, c.machine.Address(), err}
}

// enterState reports a new state to all subscribers. The caller holds Client.mu.
func (c *Client) enterState(state State, err error) {
	event := c.sessionEvent(state, err)
	c.tellState(event)
	for _, s := range c.subscribers {
		s.put(event)
	}
	if !state.Final() {
		return
	}
	for _, s := range c.subscribers {
		close(s.events)
	}
	c.subscribers = nil
	c.err = err
	close(c.done)
	c.cancel()
}
