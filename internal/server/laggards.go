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

// laggards are the connections whose clients have not taken more than outboxCrowded of
// what they were sent; or, of Server.unfinished, that have begun a long request and not ended it.
type laggards struct {
	mu    sync.Mutex
	all   map[*conn]lag
	bytes int64 // of all of them
}

type lag struct {
	bytes   int
	sinceMs int64
}

// note takes note of what waits for a client.
func (l *laggards) note(c *conn, bytes int) {
	if bytes <= outboxCrowded {
		bytes = 0
	}
	l.hold(c, bytes)
}

// hold takes note of what a client has held since it last held nothing, and returns how much all
// of them hold.
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

// held is how much a client has held and for how long: one that asks for much and reads it
// at once has held nothing.
func (l lag) held(nowMs int64) float64 { return float64(l.bytes) * float64(nowMs-l.sinceMs) }

// worst returns the one that has held most among those of the host that has held most: many
// connections of one client are not outdone by a single one of another. Nil for none.
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

// host is what the client's address is counted for where limits are ours.
func (c *conn) host() netip.Addr { return lobby.HostOf(c.remote.Addr(), lobby.NetworkBits) }

// address is what it is counted for where operators set limits by address.
func (c *conn) address() netip.Addr { return lobby.HostOf(c.remote.Addr(), c.server.cfg.NetworkBits) }

// hostOf is the host of a connection, the zero address if it has gone.
func (s *Server) hostOf(id session.ConnID) netip.Addr {
	if c := s.conns.get(id); c != nil {
		return c.host()
	}
	return netip.Addr{}
}

// relieve disconnects laggards while all outboxes together are beyond their budget. The
// caller holds no outbox.
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

// relieveMany is for outboxes of which none is crowded, and which are too much together: the
// clients that have left most unread, for longest, are disconnected until an eighth of the
// budget is free, so that it is not soon done again: it looks at every connection.
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

// relieveAgainMs is after how long all connections are looked at again if there was nothing
// more to be had of them: what is in their outboxes was put there now.
const relieveAgainMs = 20

// unread is what the client has not taken though it could; nothing if that is still to be
// seen.
func (o *outbox) unread() lag {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.out || o.awaitMs == 0 {
		return lag{}
	}
	return lag{len(o.bytes) + o.flying, o.awaitMs}
}

// relieveWatches disconnects those whose clients watch most, while all watches together
// take more memory than they may. The caller holds no outbox.
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
