package client

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/zk"
)

// EventKind says what an Event is about.
type EventKind uint8

// The kinds of events.
const (
	// EventState is a change of the session's state: it sets State, Session, Server, and in Err
	// why the last connection or the session has ended.
	EventState EventKind = iota + 1
	// EventConnect is the end of an attempt to reach a server: it sets Server, Duration, and in
	// Err why the attempt failed, nil if requests are sent to this server from now on.
	EventConnect
	// EventRequest is the end of a request: it sets Op, Path, Duration, Tries, RequestBytes,
	// ReplyBytes and Err. For a Future it comes when Wait returns.
	EventRequest
)

// String returns the kind as text.
func (k EventKind) String() string {
	switch k {
	case EventState:
		return "state"
	case EventConnect:
		return "connect"
	case EventRequest:
		return "request"
	}
	return "unknown"
}

// Event is what Options.OnEvent is called with. Which fields are set depends on the kind.
type Event struct {
	Kind    EventKind
	State   State
	Session zk.SessionID
	Server  string // host:port, "" if none is in use

	Op   zk.Op
	Path string // as the program gave it; "" if the operation has none or several

	// Duration is that of the attempt, or of the request from its call to its result, including
	// waits for a server.
	Duration     time.Duration
	Tries        int // number of attempts, each on another connection
	RequestBytes int // size of one frame, rounded up a little
	ReplyBytes   int // of the reply's frame, 0 without a reply

	// Err is nil for success. For a request it is what the server answered: if the znode does not
	// exist it is zk.ErrNoNode, for Exists too.
	Err error

	// Missed is how many events were dropped before this one because OnEvent was too slow. An
	// EventRequest counts dropped requests, any other event the others.
	Missed int
}

// LogEvents returns a function for Options.OnEvent that logs every event and then calls next, if
// that is not nil. Working states are logged at level Info and other states at Warn; attempts at
// Debug, and at Warn if they fail; requests at Debug, and at Warn if no server has answered them.
func LogEvents(logger *slog.Logger, next func(Event)) func(Event) {
	return func(e Event) {
		if level := e.level(); logger.Enabled(context.Background(), level) {
			logger.LogAttrs(context.Background(), level, "client "+e.Kind.String(), e.attrs()...)
		}
		if next != nil {
			next(e)
		}
	}
}

func (e Event) level() slog.Level {
	switch e.Kind {
	case EventState:
		if e.State == Connected || e.State == ReadOnly || e.State == Closed {
			return slog.LevelInfo
		}
		return slog.LevelWarn
	case EventRequest:
		if isLoss(e.Err) || isCode(e.Err, zk.ErrSessionExpired) {
			return slog.LevelWarn
		}
	case EventConnect:
		if e.Err != nil {
			return slog.LevelWarn
		}
	}
	return slog.LevelDebug
}

func (e Event) attrs() []slog.Attr {
	var attrs []slog.Attr
	switch e.Kind {
	case EventState:
		attrs = append(attrs, slog.String("state", e.State.String()), slog.String("session", e.Session.String()),
			slog.String("server", e.Server))
	case EventConnect:
		attrs = append(attrs, slog.String("server", e.Server), slog.Duration("duration", e.Duration))
	case EventRequest:
		attrs = append(attrs, slog.String("op", e.Op.String()), slog.String("path", e.Path),
			slog.Duration("duration", e.Duration), slog.Int("tries", e.Tries),
			slog.Int("request_bytes", e.RequestBytes), slog.Int("reply_bytes", e.ReplyBytes))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	if e.Missed > 0 {
		attrs = append(attrs, slog.Int("missed", e.Missed))
	}
	return attrs
}

// untoldMax bounds the events that wait for OnEvent, except requests; requestsMax bounds
// those.
const (
	untoldMax   = 256
	requestsMax = 1 << 14
)

// errGivenUp is the error of an attempt that the client itself ended: it took too long, the
// session was refused, or the client was closed.
var errGivenUp = errors.New("client: the attempt was given up")

// tell queues an event for tellEvents; if there is no space, it replaces the oldest one.
// The caller holds Client.mu.
func (c *Client) tell(e Event) {
	if len(c.untold) == untoldMax {
		copy(c.untold, c.untold[1:])
		c.untold = c.untold[:untoldMax-1]
		c.missed++
	}
	c.untold = append(c.untold, e)
	signal(c.toTell)
}

// tellState queues a change of state, after the attempt that has caused it. The caller
// holds Client.mu.
func (c *Client) tellState(e SessionEvent) {
	if c.options.OnEvent == nil {
		return
	}
	if e.State == Connected || e.State == ReadOnly {
		c.tellConnect(c.link, nil)
	}
	c.tell(Event{Kind: EventState, State: e.State, Session: e.Session, Server: e.Server, Err: e.Err})
}

// tellConnect queues how an attempt to reach a server has ended, once. The caller holds
// Client.mu.
func (c *Client) tellConnect(l *link, err error) {
	if c.options.OnEvent == nil || l.told {
		return
	}
	l.told = true
	c.tell(Event{Kind: EventConnect, Server: l.address, Duration: c.clock.Now().Sub(l.began), Err: err})
}

// tellEvents is the goroutine that calls OnEvent with connections and states. It ends after
// the session's last state.
func (c *Client) tellEvents() {
	for {
		c.mu.Lock()
		events, missed, ended := c.untold, c.missed, c.err != nil
		c.untold, c.missed = nil, 0
		c.mu.Unlock()
		for i, e := range events {
			if i == 0 {
				e.Missed = missed
			}
			c.options.OnEvent(e)
		}
		if len(events) > 0 {
			continue
		}
		if ended {
			return
		}
		<-c.toTell
	}
}

// tally counts what happens to a request.
type tally struct {
	began clock.Instant // only set if there is an OnEvent
	tries int
	bytes int // of the reply's frame
}

// tellRequest queues the end of a request. OnEvent is not called in the goroutine that made
// the request, because that one may hold a lock or lead, while others wait for it. Only
// called if there is an OnEvent.
func (c *Client) tellRequest(r *zk.Request, shown string, t *tally, err error) {
	c.requests.Put(Event{
		Kind: EventRequest, Op: r.Op, Path: shown, Duration: c.clock.Now().Sub(t.began), Tries: t.tries,
		RequestBytes: requestBytes(r), ReplyBytes: t.bytes, Err: err,
	})
}

// errorOf returns the error of a request; for a multi it may be in the body.
func (c *Client) errorOf(r *zk.Request, result zk.Result, err error) error {
	if err != nil {
		return err
	}
	return c.failureOf(r, result)
}
