package server

import (
	"errors"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/replica"
)

// warnMap logs which parts of the map of domains are ignored. The loop calls it.
func (s *Server) warnMap() {
	d := s.reader.Domains
	if d == nil {
		return
	}
	for _, path := range d.Open {
		s.cfg.Logger.Error("a part of the map of domains is ignored because everybody may change it: set its ACL", "path", path)
	}
}

// domains returns the present map.
func (s *Server) domains() *replica.Domains {
	s.reader.Tree.RLock()
	defer s.reader.Tree.RUnlock()
	return s.reader.Domains
}

// regroup gives a connection the identities that its certificate has by the present map; false
// if the connection must end.
func (c *conn) regroup() bool {
	s := c.server
	now, own := s.domains(), c.own()
	proved, err := s.cfg.Auth.Grouped(own.client, now.Of[own.client])
	all := auth.Regrouped(c.identities, proved)
	bytes := identityBytes(all)
	if err == nil && (len(all) > identitiesMax || bytes > identityBytesMax) {
		err = errManyDomains
	}
	if err != nil {
		s.refusedHandshake(c.remote, err)
		return false
	}
	c.identities, c.identityBytes, own.mapped = all, int64(bytes), now
	c.admitted = s.cfg.Auth.Admits(all)
	return c.belong(all)
}

var errManyDomains = errors.New("the client is in more domains than a connection has identities")

// follow does the same for a connection in use if the map has changed, and tells the loop,
// which already has everything that the connection has asked for before.
func (c *conn) follow() bool {
	if c.rare == nil || c.rare.client == "" || c.server.domains() == c.rare.mapped {
		return true
	}
	if !c.regroup() {
		return false
	}
	c.holdToPaces(c.identities)
	c.server.inbox.put(replica.Event{Kind: replica.EventIdentities, Conn: c.id, Identities: c.identities})
	return true
}
