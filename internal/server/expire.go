package server

import (
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/zk"
)

// ExpireSession has a session end as if its client had been silent for its
// timeout: tests do that. It does not wait for the end. It returns false if this
// server does not lead, or there is no such session, or it is ending already.
func (s *Server) ExpireSession(id zk.SessionID) bool {
	found := false
	s.inspect(func(r *replica.Replica) { found = r.ExpireSession(id) })
	if found {
		s.inbox.put(replica.Event{Kind: replica.EventTick})
	}
	return found
}

// KnowsSession reports whether a session is known to this server and not ended.
func (s *Server) KnowsSession(id zk.SessionID) bool {
	known := false
	s.inspect(func(r *replica.Replica) { known = r.Sessions().Get(id) != nil })
	return known
}
