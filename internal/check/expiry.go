package check

import (
	"maps"
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

const propertyExpiry = "expiry"

// Expiry sees that sessions end in time. All times are of the leader's clock, in
// milliseconds: it alone decides.
//
//	X1  Never early: no leader ends a session before its timeout has passed since
//	    the leader was established, since it has decided that the session begins, and
//	    since it was told, by a client of its own or by what a learner has sent since,
//	    that the client lives.
//	X2  Never early for clients either: while nothing disturbs the ensemble, no
//	    session ends before its timeout has passed since any server received from its
//	    client.
//	X3  Never late: once the leader has taken a step after the timeout and a slack,
//	    counted from when it was established or could last have been told, the end
//	    of the session is decided.
//	X4  Never while a message of its client waits that has come to the leader in time.
type Expiry struct {
	leaders  map[quorum.ID]*reign
	sessions map[zk.SessionID]int64 // those that exist: timeout
}

// reign is the time of a leader.
type reign struct {
	sinceMs int64
	alive   map[zk.SessionID]int64 // it surely knew
	maybe   map[zk.SessionID]int64 // it may have known, or better
	here    map[zk.SessionID]bool  // sessions that it has: false if it has decided their end
}

// NewExpiry returns a checker that knows no leader.
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
// and it may end before anybody has seen it begin: on a leader whose disk is slow, decisions
// wait for long. One that the leader has already gets nothing by that.
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

// Closed says that it does not exist any more.
func (e *Expiry) Closed(session zk.SessionID) { delete(e.sessions, session) }

// Alive says that a leader surely knows that a session lives.
func (e *Expiry) Alive(leader quorum.ID, session zk.SessionID, atMs int64) {
	if r := e.leaders[leader]; r != nil {
		r.alive[session], r.maybe[session] = atMs, atMs
	}
}

// MaybeAlive says that it may know.
func (e *Expiry) MaybeAlive(leader quorum.ID, session zk.SessionID, atMs int64) {
	if r := e.leaders[leader]; r != nil {
		r.maybe[session] = atMs
	}
}

// Ended says that a leader has decided the end of a session that its client
// asked for.
func (e *Expiry) Ended(leader quorum.ID, session zk.SessionID) {
	if r := e.leaders[leader]; r != nil {
		r.here[session] = false
	}
}

// Expired says that a leader ends a session because it was silent. ReceivedMs is
// when any server received from the client last, if nothing has disturbed the ensemble
// since, else 0.
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

// Waits says that a leader ends a session because it was silent, while a message of its client,
// or a learner's that tells of one, waits to be looked at since cameMs.
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

// Stepped says that a leader that can write has taken a step at a time: by then
// every session has ended of which it was not told for its timeout and slackMs.
func (e *Expiry) Stepped(leader quorum.ID, atMs, slackMs int64) error {
	r := e.leaders[leader]
	if r == nil {
		return nil // it is about to be established
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
