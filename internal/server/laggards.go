package server

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/conclave-project/conclave/internal/lobby"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/watch"
	"github.com/conclave-project/conclave/zk"
)

// laggards are the connections whose clients have more than outboxCrowded left unread of what
// they were sent. In Server.unfinished they are the connections with an unfinished long
// request.
type laggards struct {
	mu    sync.Mutex
	all   map[*conn]lag
	bytes int64 // total of all
}

type lag struct {
	bytes   int
	sinceMs int64
}

// note records how much waits for a client.
func (l *laggards) note(c *conn, bytes int) {
	if bytes <= outboxCrowded {
		bytes = 0
	}
	l.hold(c, bytes)
}

// hold records how much a client holds, since it last held nothing, and returns the total of
// all clients.
func (l *laggards) hold(c *conn, bytes int) (all int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, lagged := l.all[c]
	l.bytes += int64(bytes - before.bytes)
	switch {
	case bytes == 0:
		delete(l.all, c)
		return l.bytes
	case !lagged:
		before.sinceMs = c.server.monoMs()
	}
	if l.all == nil {
		l.all = make(map[*conn]lag)
	}
	l.all[c] = lag{bytes, before.sinceMs}
	return l.bytes
}

// held returns how much a client has held multiplied by the time: a client that asks for much
// and reads it at once has held nothing.
func (l lag) held(nowMs int64) float64 { return float64(l.bytes) * float64(nowMs-l.sinceMs) }

// worst returns the connection that has held the most among those of the host that has held the
// most; nil for none. So many connections of one client do not look better than a single one of
// another.
func (l *laggards) worst(nowMs int64) (worst *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := map[netip.Addr]float64{}
	for c, one := range l.all {
		of[c.host()] += one.held(nowMs)
	}
	most, mostOfHost := float64(-1), float64(-1)
	for c, one := range l.all {
		held, host := one.held(nowMs), of[c.host()]
		if host > mostOfHost || host == mostOfHost && held > most {
			worst, most, mostOfHost = c, held, host
		}
	}
	return worst
}

// host returns the client's address as it is counted for the server's own limits.
func (c *conn) host() netip.Addr { return lobby.HostOf(c.remote.Addr(), lobby.NetworkBits) }

// address returns the client's address as it is counted for limits that operators set by
// address.
func (c *conn) address() netip.Addr { return lobby.HostOf(c.remote.Addr(), c.server.cfg.NetworkBits) }

// hostOf returns the host of a connection; the zero address if it is gone.
func (s *Server) hostOf(id session.ConnID) netip.Addr {
	if c := s.conns.get(id); c != nil {
		return c.host()
	}
	return netip.Addr{}
}

// relieve disconnects laggards while all outboxes together exceed their budget. The caller
// holds no lock of an outbox.
func (s *Server) relieve() {
	s.relieveWatches()
	for s.outboxBytes.Load() > s.cfg.OutboxBudget {
		c := s.laggards.worst(s.monoMs())
		if c == nil {
			s.relieveMany()
			return
		}
		c.out.mu.Lock()
		c.overrun()
		c.out.mu.Unlock()
	}
}

// relieveMany handles outboxes that together are too large although none of them is crowded. It
// disconnects the clients that have left the most unread for the longest time, until an eighth
// of the budget is free. So it is not soon needed again, which matters because it examines
// every connection.
func (s *Server) relieveMany() {
	s.many.Lock()
	defer s.many.Unlock()
	nowMs := s.monoMs()
	if s.outboxBytes.Load() <= s.cfg.OutboxBudget || nowMs < s.many.againMs {
		return
	}
	held, of := map[*conn]float64{}, map[netip.Addr]float64{}
	for _, c := range s.conns.all() {
		if l := c.out.unread(); l.bytes > 0 {
			held[c] = l.held(nowMs + 1)
			of[c.host()] += held[c]
		}
	}
	all := slices.SortedFunc(maps.Keys(held), func(a, b *conn) int {
		return cmp.Or(cmp.Compare(of[b.host()], of[a.host()]), cmp.Compare(held[b], held[a]), cmp.Compare(a.id, b.id))
	})
	for _, c := range all {
		if s.outboxBytes.Load() <= s.cfg.OutboxBudget-s.cfg.OutboxBudget/8 {
			return
		}
		c.out.mu.Lock()
		c.overrun()
		c.out.mu.Unlock()
	}
	s.many.againMs = nowMs + relieveAgainMs
}

// relieveAgainMs is when all connections may be examined again if there was nothing more to
// gain: what is in their outboxes has just been put there.
const relieveAgainMs = 20

// unread returns what the client has not read although it could have; nothing if that is not
// known yet.
func (o *outbox) unread() lag {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.out || o.awaitMs == 0 {
		return lag{}
	}
	return lag{len(o.bytes) + o.flying, o.awaitMs}
}

// relieveWatches disconnects the clients with the most watches while all watches together need
// more memory than allowed. The caller holds no lock of an outbox.
func (s *Server) relieveWatches() {
	watches := s.reader.Watches
	for s.cfg.WatchBytesMax > 0 && watches.Bytes() > s.cfg.WatchBytesMax {
		id, found := watch.Heaviest(watches, s.hostOf)
		if !found {
			return
		}
		if c := s.conns.get(id); c != nil {
			c.out.mu.Lock()
			c.overrun() // no watch is added after this
			c.out.mu.Unlock()
			s.cfg.Logger.Warn("disconnected the client with the most watches: all watches together take more than conclave.watchBytesMax",
				"client", c.remote, "session", zk.SessionID(c.sessionID.Load()), "bytes", s.cfg.WatchBytesMax)
		}
		watches.Forget(id)
	}
}
