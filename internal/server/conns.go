package server

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/ports"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// conns are the connections of clients, including those without a session.
type conns struct {
	mu struct {
		sync.RWMutex
		byID  map[session.ConnID]*conn
		perIP map[netip.Addr]*fromHost
	}
	count    atomic.Int64
	nextID   atomic.Uint64
	rejected atomic.Int64

	// ending is locked while the counts of a connection move to the server, and for reading
	// while both are added up: otherwise a sum would miss them, or include them twice. It is
	// locked before all other locks.
	ending sync.RWMutex
}

// fromHost are the connections from one host.
type fromHost struct {
	count      int
	identities []zk.Identity // those of the host's address: all its connections share them
}

func (c *conns) init() {
	c.mu.byID = map[session.ConnID]*conn{}
	c.mu.perIP = map[netip.Addr]*fromHost{}
}

func (c *conns) get(id session.ConnID) *conn {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.mu.byID[id]
}

// append appends those of some connections that still exist.
func (c *conns) append(all []*conn, ids []session.ConnID) []*conn {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, id := range ids {
		if one := c.mu.byID[id]; one != nil {
			all = append(all, one)
		}
	}
	return all
}

// add adds a connection, unless one of the limits (0 is none) is reached.
func (c *conns) add(n *conn, perIPMax, max int) bool {
	host := n.address()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.mu.perIP[host]
	if max > 0 && len(c.mu.byID) >= max || perIPMax > 0 && all != nil && all.count >= perIPMax {
		c.rejected.Add(1)
		return false
	}
	if all == nil {
		all = &fromHost{identities: n.identities}
		c.mu.perIP[host] = all
	}
	if all.count++; slices.Equal(all.identities, n.identities) {
		n.identities = slices.Clip(all.identities)
	}
	n.id = session.ConnID(c.nextID.Add(1))
	c.mu.byID[n.id] = n
	c.count.Add(1)
	return true
}

func (c *conns) remove(n *conn) {
	host := n.address()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.mu.byID[n.id]; !ok {
		return
	}
	delete(c.mu.byID, n.id)
	c.count.Add(-1)
	all := c.mu.perIP[host]
	if all.count--; all.count == 0 {
		delete(c.mu.perIP, host)
	}
}

// all returns the connections in the order in which they were accepted.
func (c *conns) all() []*conn {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]*conn, 0, len(c.mu.byID))
	for _, n := range c.mu.byID {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	return out
}

func (c *conns) closeAll() {
	for _, n := range c.all() {
		n.shut()
		n.resume()
	}
}

// accept accepts connections until the listener is closed.
func (s *Server) accept(listener net.Listener) {
	for {
		socket, err := listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || s.done.Err() != nil {
				return
			}
			// Probably out of file descriptors: existing connections continue.
			s.cfg.Logger.Warn("accept", "error", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.done.Done():
				return
			}
			continue
		}
		ports.LimitUnsent(socket)
		c := newConn(s, socket)
		if !s.conns.add(c, s.cfg.ConnsPerIPMax, s.cfg.ConnsMax) {
			s.refused(refusedConn, c.remote)
			reset(socket)
			continue
		}
		if s.done.Err() != nil {
			c.shut()
		}
		s.task(c.serve)
	}
}

// reset closes a socket with a reset, so that nothing remains.
func reset(socket net.Conn) {
	if tcp, ok := socket.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	socket.Close()
}

// expireHandshakes closes the connections that have not begun a session in time. One loop over
// all connections costs less than a timer for each.
func (s *Server) expireHandshakes() {
	if s.cfg.HandshakeTime <= 0 {
		return
	}
	limit := s.monoMs() - s.cfg.HandshakeTime.Milliseconds()
	s.conns.mu.RLock()
	defer s.conns.mu.RUnlock()
	for _, c := range s.conns.mu.byID {
		if c.sessionID.Load() == 0 && c.sinceMs < limit {
			if !c.expired {
				c.expired = true
				s.meters.expired.Add(1)
			}
			c.shut()
		}
	}
}

func remoteAddr(socket net.Conn) netip.AddrPort {
	if tcp, ok := socket.RemoteAddr().(*net.TCPAddr); ok {
		a := tcp.AddrPort()
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
}
