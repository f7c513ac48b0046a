package server

import (
	"slices"
	"sync"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// identityConns counts the connections of each identity that clients have proved. Any goroutine
// may use it.
type identityConns struct {
	mu sync.Mutex
	of map[zk.Identity]int
}

// enter counts a connection for all given identities, or for none if one of them already has
// the maximum.
func (i *identityConns) enter(all []zk.Identity, most int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, id := range all {
		if i.of[id] >= most {
			return false
		}
	}
	if i.of == nil {
		i.of = make(map[zk.Identity]int)
	}
	for _, id := range all {
		i.of[id]++
	}
	return true
}

func (i *identityConns) leave(all []zk.Identity) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, id := range all {
		if i.of[id]--; i.of[id] == 0 {
			delete(i.of, id)
		}
	}
}

// owners returns the identities to which a connection belongs. Its address is not one of them,
// and a connection of the super user belongs to nobody, so that an operator can always connect.
func owners(all []zk.Identity) (who []zk.Identity) {
	for _, id := range all {
		switch id.Scheme {
		case "ip":
		case auth.Super.Scheme:
			return nil
		default:
			who = append(who, id)
		}
	}
	return who
}

// belong records the identities to which the connection belongs; false if one of those has too
// many connections. Its goroutine calls it.
func (c *conn) belong(identities []zk.Identity) bool {
	s := c.server
	t := &s.cfg.Throttle
	if t.IdentityConnsMax <= 0 && t.Watches.Identity <= 0 {
		return true
	}
	who, own := owners(identities), c.own()
	if slices.Equal(who, own.owners) {
		return true
	}
	if most := t.IdentityConnsMax; most > 0 {
		s.identityConns.leave(own.owners)
		if !s.identityConns.enter(who, most) {
			own.owners = nil
			s.conns.rejected.Add(1)
			s.refused(refusedIdentity, c.remote)
			return false
		}
	}
	own.owners = who
	if t.Watches.Identity > 0 {
		s.reader.Watches.Own(c.id, who)
	}
	return true
}

// belongNoMore undoes that at the end of the connection.
func (c *conn) belongNoMore() {
	if c.rare == nil {
		return
	}
	if c.server.cfg.Throttle.IdentityConnsMax > 0 {
		c.server.identityConns.leave(c.rare.owners)
	}
	c.rare.owners = nil
}

// refusedWatchOf counts a watch that was refused.
func (s *Server) refusedWatchOf(id session.ConnID) {
	if c := s.conns.get(id); c != nil {
		s.refused(refusedWatch, c.remote)
	}
}
