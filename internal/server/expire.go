package server

import (
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/zk"
)

// ExpireSession makes a session end as if its client had been silent for its timeout; it is for
// tests. It does not wait for the end. It returns false if this server does not lead, or if
// there is no such session, or if the session is already ending.
func (s *Server) ExpireSession(id zk.SessionID) bool {
	found := false
	s.inspect(func(r *replica.Replica) { found = r.ExpireSession(id) })
	if found {
		s.inbox.put(replica.Event{Kind: replica.EventTick})
	}
	return found
}

// KnowsSession reports whether this server knows a session that has not ended.
func (s *Server) KnowsSession(id zk.SessionID) bool {
	known := false
	s.inspect(func(r *replica.Replica) { known = r.Sessions().Get(id) != nil })
	return known
}
