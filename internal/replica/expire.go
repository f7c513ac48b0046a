package replica

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// ExpireSession has a session end at the next tick, as if its client had been
// silent for its timeout: tests ask for that between two steps. It returns false
// if this server does not decide, or there is no such session that all know.
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

// Locals returns the sessions that this server alone knows. Only the goroutine
// that steps the replica may use it.
func (r *Replica) Locals() *session.Table { return r.locals }
