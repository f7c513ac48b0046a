package nats

import (
	"context"
	"errors"
	"time"
)

// pongMax is how long a server may take to answer a ping while a request has no answer.
const pongMax = time.Second

// within limits the time of a request. If a quarter of it has passed, the server at the other
// end of the connection is asked whether it is there (nats-J5).
func (s *store) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	if !s.owned {
		return ctx, cancel
	}
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	probe := time.AfterFunc(left/4, func() { s.probe(min(left/2, pongMax)) })
	return ctx, func() {
		probe.Stop()
		cancel()
	}
}

// probe moves the connection to another server if this one does not answer a ping. A server that
// answers is kept: JetStream is also silent while the stream has no leader.
func (s *store) probe(patience time.Duration) {
	if !s.probing.CompareAndSwap(false, true) {
		return
	}
	defer s.probing.Store(false)
	connection := s.js.Conn()
	if !connection.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	before := connection.Stats().Reconnects
	err := connection.FlushWithContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) && connection.IsConnected() && connection.Stats().Reconnects == before {
		_ = connection.ForceReconnect() // an error means that it was closed
	}
}
