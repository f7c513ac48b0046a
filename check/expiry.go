package check

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Expiry sees that no leader ends a session before its timeout has passed since
// the leader was established, and since it surely knew that the session lived.
// All times are of the leader's clock, in milliseconds. What a follower heard
// and could not tell does not count: no leader could know it.
type Expiry struct {
	leaders map[quorum.ID]*reign
}

// reign is the time of a leader.
type reign struct {
	sinceMs int64
	alive   map[zk.SessionID]int64
}

// NewExpiry returns a checker that knows no leader.
func NewExpiry() *Expiry { return &Expiry{leaders: map[quorum.ID]*reign{}} }

// Leads says that a server is established as a leader.
func (e *Expiry) Leads(leader quorum.ID, atMs int64) {
	e.leaders[leader] = &reign{sinceMs: atMs, alive: map[zk.SessionID]int64{}}
}

// Alive says that a leader has heard of a session, from a client of its own or
// by the transaction that began it.
func (e *Expiry) Alive(leader quorum.ID, session zk.SessionID, atMs int64) {
	if r := e.leaders[leader]; r != nil {
		r.alive[session] = atMs
	}
}

// Expired says that a leader ends a session because it was silent.
func (e *Expiry) Expired(leader quorum.ID, session zk.SessionID, timeoutMs, atMs int64) error {
	r := e.leaders[leader]
	if r == nil {
		return broken("expiry", "server %d ends session %v and does not lead", leader, session)
	}
	heard, known := r.alive[session]
	if since := max(r.sinceMs, heard); atMs-since < timeoutMs {
		return broken("expiry", "leader %d ends session %v of %d ms, %d ms after it has begun to lead or heard of it (%v)",
			leader, session, timeoutMs, atMs-since, known)
	}
	return nil
}
