package server

import (
	"sync"

	"github.com/conclave-project/conclave/zk"
)

// laggards are the connections whose clients have not taken more than outboxCrowded of
// what they were sent.
type laggards struct {
	mu  sync.Mutex
	all map[*conn]lag
}

type lag struct {
	bytes   int
	sinceMs int64
}

// note takes note of what waits for a client.
func (l *laggards) note(c *conn, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, lagged := l.all[c]
	switch {
	case bytes <= outboxCrowded:
		delete(l.all, c)
		return
	case !lagged:
		before.sinceMs = c.server.monoMs()
	}
	if l.all == nil {
		l.all = make(map[*conn]lag)
	}
	l.all[c] = lag{bytes, before.sinceMs}
}

// worst returns the one that has held most for longest: its bytes, times for how long it
// has lagged. A client that asks for much and reads it at once has held nothing. Nil for
// none.
func (l *laggards) worst(nowMs int64) (worst *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := float64(-1)
	for c, one := range l.all {
		if held := float64(one.bytes) * float64(nowMs-one.sinceMs); held > most {
			worst, most = c, held
		}
	}
	return worst
}

// relieve disconnects laggards while all outboxes together are beyond their budget. The
// caller holds no outbox.
func (s *Server) relieve() {
	s.relieveWatches()
	for s.outboxBytes.Load() > s.cfg.OutboxBudget {
		c := s.laggards.worst(s.monoMs())
		if c == nil {
			return // what is there is within what each may have
		}
		c.out.mu.Lock()
		c.overrun()
		c.out.mu.Unlock()
	}
}

// relieveWatches disconnects those whose clients watch most, while all watches together
// take more memory than they may. The caller holds no outbox.
func (s *Server) relieveWatches() {
	watches := s.reader.Watches
	for s.cfg.WatchBytesMax > 0 && watches.Bytes() > s.cfg.WatchBytesMax {
		id, found := watches.Heaviest()
		if !found {
			return
		}
		if c := s.conns.get(id); c != nil {
			c.out.mu.Lock()
			c.overrun() // no watch is added after this
			c.out.mu.Unlock()
			s.cfg.Logger.Warn("disconnected the client with most watches: all together take more than conclave.watchBytesMax",
				"client", c.remote, "session", zk.SessionID(c.sessionID.Load()), "bytes", s.cfg.WatchBytesMax)
		}
		watches.Forget(id)
	}
}
