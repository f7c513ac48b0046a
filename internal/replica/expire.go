package replica

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// ExpireSession makes a session end at the next tick, as if its client had been silent for its
// timeout. Tests call it between two steps. It returns false if this server does not lead, or
// has no such session that all servers know.
func (r *Replica) ExpireSession(id zk.SessionID) bool {
	s := r.sessions.Get(id)
	if s == nil || s.Closing || !r.leads() {
		return false
	}
	s.Closing = true
	r.counts.Expired++
	r.leading.end(id)
	return true
}

// Locals returns the sessions that only this server knows. Only the goroutine that steps the
// replica may use it.
func (r *Replica) Locals() *session.Table { return r.locals }
