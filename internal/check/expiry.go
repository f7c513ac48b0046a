package check

import (
	"maps"
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

const propertyExpiry = "expiry"

// Expiry checks that sessions end in time. All times are of the leader's clock, in
// milliseconds, because only the leader decides.
//
//	X1  Never early: no leader ends a session before its timeout has passed since
//	    the leader was established, since it decided that the session begins, and
//	    since it learned, from a client of its own or from what a learner has sent
//	    since, that the client lives.
//	X2  Never early for clients either: while nothing disturbs the ensemble, no
//	    session ends before its timeout has passed since any server received from its
//	    client.
//	X3  Never late: once the leader has taken a step after the timeout and a slack,
//	    counted from when it was established or may last have learned that the
//	    client lives, the end of the session is decided.
//	X4  Never while a message of its client is waiting that reached the leader in time.
type Expiry struct {
	leaders  map[quorum.ID]*reign
	sessions map[zk.SessionID]int64 // existing sessions with their timeouts
}

// reign is the time of one leader.
type reign struct {
	sinceMs int64
	alive   map[zk.SessionID]int64 // when it certainly learned that the client lives
	maybe   map[zk.SessionID]int64 // the latest time at which it may have learned that
	here    map[zk.SessionID]bool  // its sessions: false if it has decided their end
}

// NewExpiry returns a checker without a leader.
func NewExpiry() *Expiry {
	return &Expiry{leaders: map[quorum.ID]*reign{}, sessions: map[zk.SessionID]int64{}}
}

// Leads says that a server is established as a leader.
func (e *Expiry) Leads(leader quorum.ID, atMs int64) {
	r := &reign{sinceMs: atMs, alive: map[zk.SessionID]int64{}, maybe: map[zk.SessionID]int64{}, here: map[zk.SessionID]bool{}}
	for session := range e.sessions {
		r.here[session] = true
	}
	e.leaders[leader] = r
}

// Opens says that a leader has decided that a session begins. From then on its time runs,
// and it may end before anybody has seen it begin: if the leader's disk is slow, decisions
// wait long. For a session that the leader already has, nothing changes.
func (e *Expiry) Opens(leader quorum.ID, session zk.SessionID, atMs int64) {
	r := e.leaders[leader]
	if r == nil {
		return
	}
	if !r.here[session] {
		r.alive[session] = atMs
	}
	r.here[session], r.maybe[session] = true, atMs
}

// Opened says that a session exists.
func (e *Expiry) Opened(session zk.SessionID, timeoutMs int64) { e.sessions[session] = timeoutMs }

// Closed says that a session no longer exists.
func (e *Expiry) Closed(session zk.SessionID) { delete(e.sessions, session) }

// Alive says that a leader certainly knows that a session's client lives.
func (e *Expiry) Alive(leader quorum.ID, session zk.SessionID, atMs int64) {
	if r := e.leaders[leader]; r != nil {
		r.alive[session], r.maybe[session] = atMs, atMs
	}
}

// MaybeAlive says that a leader may know that a session's client lives.
func (e *Expiry) MaybeAlive(leader quorum.ID, session zk.SessionID, atMs int64) {
	if r := e.leaders[leader]; r != nil {
		r.maybe[session] = atMs
	}
}

// Ended says that a leader has decided the end of a session at its client's request.
func (e *Expiry) Ended(leader quorum.ID, session zk.SessionID) {
	if r := e.leaders[leader]; r != nil {
		r.here[session] = false
	}
}

// Expired says that a leader ends a session because its client was silent. receivedMs is
// when any server last received from the client; 0 if the ensemble was disturbed since.
func (e *Expiry) Expired(leader quorum.ID, session zk.SessionID, timeoutMs, atMs, receivedMs int64) error {
	r := e.leaders[leader]
	if r == nil {
		return broken(propertyExpiry, "server %d ends session %v and does not lead", leader, session)
	}
	r.here[session] = false
	told, known := r.alive[session]
	if since := max(r.sinceMs, told); atMs-since < timeoutMs {
		return broken(propertyExpiry, "X1: leader %d ends session %v of %d ms, %d ms after it has begun to lead or was told of it (%v)",
			leader, session, timeoutMs, atMs-since, known)
	}
	if receivedMs > 0 && atMs-receivedMs < timeoutMs {
		return broken(propertyExpiry, "X2: leader %d ends session %v of %d ms, %d ms after a server received from its client",
			leader, session, timeoutMs, atMs-receivedMs)
	}
	return nil
}

// Waits says that a leader ends a session because its client was silent, although a message
// of the client, or of a learner that reports one, has been waiting since cameMs.
func (e *Expiry) Waits(leader quorum.ID, session zk.SessionID, timeoutMs, cameMs int64) error {
	r := e.leaders[leader]
	if r == nil {
		return nil
	}
	if since := max(r.sinceMs, r.alive[session]); cameMs-since < timeoutMs {
		return broken(propertyExpiry, "X4: leader %d ends session %v of %d ms, and a message of its client waits that came after %d ms",
			leader, session, timeoutMs, cameMs-since)
	}
	return nil
}

// Stepped says that a leader that can write has taken a step at a time. By then the end of
// every session must be decided whose client the leader has not learned of for the timeout
// and slackMs.
func (e *Expiry) Stepped(leader quorum.ID, atMs, slackMs int64) error {
	r := e.leaders[leader]
	if r == nil {
		return nil // it is not established yet
	}
	for _, session := range slices.Sorted(maps.Keys(e.sessions)) {
		since := max(r.sinceMs, r.maybe[session])
		if late := atMs - since - e.sessions[session] - slackMs; late > 0 && r.here[session] {
			return broken(propertyExpiry, "X3: leader %d has not ended session %v of %d ms, %d ms after it was told of it last",
				leader, session, e.sessions[session], atMs-since)
		}
	}
	return nil
}
