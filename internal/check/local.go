package check

import (
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

const propertyLocal = "local"

// Local follows the sessions that only one server knows. Times are of that server's clock,
// in milliseconds.
//
//	L1  The process that has given such a session attaches it, and no other does, until
//	    the session is upgraded: a transaction makes it known to all servers.
//	L2  It is upgraded for a client that asks for an ephemeral, if servers upgrade.
//	L3  It ends no sooner than its timeout after the last heartbeat that its
//	    server has received, and no later than a slack after that. A session whose
//	    upgrade somebody has logged may end sooner, with the history that the log
//	    belongs to; one whose upgrade may be in progress, with its server's role.
//	L4  A client is refused an ephemeral only if servers do not upgrade.
type Local struct {
	upgrades bool // whether servers upgrade
	sessions map[zk.SessionID]*private
	ids      []zk.SessionID        // of all sessions, sorted
	wants    map[zk.SessionID]bool // sessions whose clients have asked for an ephemeral
}

// private is a session that one process knows.
type private struct {
	server              quorum.ID
	life                int
	timeoutMs           int64
	receivedMs, maybeMs int64 // when its server has certainly received from its client, and when it may have
	over, upgraded      bool  // over: ended, or upgraded
	ended               bool  // by its server, which may not know of an upgrade in progress
	mayEnd              bool  // its server may not know the outcome of its upgrade
}

// NewLocal returns a checker of servers that have not given any session.
func NewLocal(upgrades bool) *Local {
	return &Local{upgrades: upgrades, sessions: map[zk.SessionID]*private{}, wants: map[zk.SessionID]bool{}}
}

// Attached says that a process attaches a session that no transaction has created.
func (l *Local) Attached(id zk.SessionID, server quorum.ID, life int, timeoutMs, nowMs int64) error {
	s := l.sessions[id]
	if s == nil {
		s = &private{server: server, life: life}
		l.sessions[id] = s
		at, _ := slices.BinarySearch(l.ids, id)
		l.ids = slices.Insert(l.ids, at, id)
	}
	if s.server != server || s.life != life {
		return broken(propertyLocal, "L1: server %d attaches session %v, which server %d alone knows", server, id, s.server)
	}
	s.timeoutMs, s.receivedMs, s.maybeMs = timeoutMs, nowMs, nowMs
	return nil
}

// Has reports whether a session was given by one process, and neither ended nor was
// upgraded.
func (l *Local) Has(id zk.SessionID) bool { return l.sessions[id] != nil && !l.sessions[id].over }

// Ended reports whether the server of a local session has ended it.
func (l *Local) Ended(id zk.SessionID) bool { return l.sessions[id] != nil && l.sessions[id].ended }

// Received says that the session's server has received from its client; if not sure, that
// it may have.
func (l *Local) Received(id zk.SessionID, nowMs int64, sure bool) {
	s := l.sessions[id]
	if s == nil {
		return
	}
	if s.maybeMs = nowMs; sure {
		s.receivedMs = nowMs
	}
}

// Asked says that a client has sent a request.
func (l *Local) Asked(id zk.SessionID, req *zk.Request) {
	if makesEphemeral(req) {
		l.wants[id] = true
	}
}

func makesEphemeral(req *zk.Request) bool {
	return req.Op.IsCreate() && req.Mode.IsEphemeral() || slices.ContainsFunc(req.Ops, func(op zk.Request) bool { return makesEphemeral(&op) })
}

// Refused says that a client was refused an ephemeral because its session is local.
func (l *Local) Refused(id zk.SessionID) error {
	if l.upgrades || !l.Had(id) {
		return broken(propertyLocal, "L4: session %v may have no ephemeral, and it could be upgraded", id)
	}
	return nil
}

// Closed says that a client has closed its session.
func (l *Local) Closed(id zk.SessionID) {
	if s := l.sessions[id]; s != nil {
		s.over = true
	}
}

// Logged says that a server has logged a transaction that creates a session.
func (l *Local) Logged(id zk.SessionID) {
	if s := l.sessions[id]; s != nil {
		s.mayEnd = true
	}
}

// RoleEnded says that a server has left its role. It may end the sessions whose upgrade may
// be in progress, because other servers may have seen them begin and end.
func (l *Local) RoleEnded(server quorum.ID) {
	for id, s := range l.sessions {
		s.mayEnd = s.mayEnd || l.upgrades && s.server == server && l.wants[id]
	}
}

// Opened says that a transaction has created a session.
func (l *Local) Opened(id zk.SessionID) error {
	if !l.Had(id) {
		return nil
	}
	l.sessions[id].over, l.sessions[id].upgraded = true, true
	if !l.upgrades || !l.wants[id] {
		return broken(propertyLocal, "L2: session %v is upgraded, and its client has asked for an ephemeral: %v", id, l.wants[id])
	}
	return nil
}

// Stepped says that a process has taken a step at a time. has reports whether the process
// has a session as a local one, and knows whether it has it as one that all know, because
// an upgrade may not have been shown yet. A step without a tick may precede the one that
// ends sessions.
func (l *Local) Stepped(server quorum.ID, life int, nowMs, slackMs int64, tick bool, has, knows func(zk.SessionID) bool) error {
	for _, id := range l.ids {
		s := l.sessions[id]
		if s.server != server || s.life != life {
			continue
		}
		here := has(id)
		s.ended = s.ended || !here && !knows(id)
		if s.over {
			continue
		}
		if !here && knows(id) {
			continue
		}
		s.over = !here
		if silentMs := nowMs - s.receivedMs; !here && !s.mayEnd && silentMs < s.timeoutMs {
			return broken(propertyLocal, "L3: server %d ends session %v of %d ms, %d ms after its client's last message", server, id, s.timeoutMs, silentMs)
		}
		if silentMs := nowMs - s.maybeMs; here && tick && silentMs > s.timeoutMs+slackMs {
			return broken(propertyLocal, "L3: server %d has not ended session %v of %d ms, %d ms after its client's last message", server, id, s.timeoutMs, silentMs)
		}
	}
	return nil
}

// Had reports whether a session was given by one process and never upgraded, even if it has
// ended.
func (l *Local) Had(id zk.SessionID) bool { return l.sessions[id] != nil && !l.sessions[id].upgraded }

// Gone says that a process has ended, with its sessions. Their ids are kept, because no
// other process may attach them.
func (l *Local) Gone(server quorum.ID) {
	for _, s := range l.sessions {
		s.over = s.over || s.server == server
	}
}

// Left returns a session that a process still has although its client is gone; 0 for none.
func (l *Local) Left(living map[zk.SessionID]bool) zk.SessionID {
	for _, id := range l.ids {
		if !l.sessions[id].over && !living[id] {
			return id
		}
	}
	return 0
}
