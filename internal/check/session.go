package check

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

const propertySession = "session"

// Session follows one client's session, by the bytes of its connections:
//
//	S1  Replies come in the order of the requests of their connection, one for
//	    each; pings, credentials and setWatches have their own numbers.
//	S2  The zxid of what is received is never below a transaction seen before, even
//	    on another server: a client never goes back in time, and reads what it has
//	    written. An exception is the end of a log that a read-only server has shown
//	    and nobody has committed: it may be gone later.
//	S3  A session that has ended is not attached again.
type Session struct {
	id      zk.SessionID
	pending []zk.Xid
	seen    zk.Zxid
	ended   bool
	passing bool // only partitioned servers have known it: the next server gives another one
	server  quorum.ID
	shown   func(after, upTo zk.Zxid) bool
}

// NewSession returns the checker of a session that does not exist yet. shown reports
// whether a serving server has shown a transaction above one zxid, up to another.
func NewSession(shown func(after, upTo zk.Zxid) bool) Session { return Session{shown: shown} }

// Connected says that a server has answered the handshake; id is 0 if it refused. readOnly
// is what the server says about itself.
func (s *Session) Connected(server quorum.ID, id zk.SessionID, readOnly bool) error {
	s.pending, s.server = s.pending[:0], server
	switch {
	case id == 0:
		s.ended = true
	case s.ended:
		return broken(propertySession, "S3: server %d attaches session %v, which has ended", server, id)
	case s.id != 0 && s.id != id && !s.passing:
		return broken(propertySession, "S3: server %d attaches session %v to a client of session %v", server, id, s.id)
	}
	s.passing = readOnly && (s.passing || s.id == 0)
	s.id = id
	return nil
}

// Sent says that a request was sent on the current connection.
func (s *Session) Sent(xid zk.Xid) { s.pending = append(s.pending, xid) }

// Replied says that a reply, or an event with a zxid, has arrived. A zxid that is not
// positive means nothing.
func (s *Session) Replied(xid zk.Xid, zxid zk.Zxid) error {
	if xid >= 0 {
		if len(s.pending) == 0 || s.pending[0] != xid {
			return broken(propertySession, "S1: session %v gets a reply to %d from server %d, and waits for those to %v", s.id, xid, s.server, s.pending)
		}
		s.pending = s.pending[:copy(s.pending, s.pending[1:])]
	}
	return s.Saw(zxid)
}

// Saw says that something with a zxid has arrived.
func (s *Session) Saw(zxid zk.Zxid) error {
	if zxid <= 0 {
		return nil
	}
	if zxid < s.seen && s.shown(zxid, s.seen) {
		return broken(propertySession, "S2: session %v sees %s on server %d, and has seen %s before", s.id, number(zxid), s.server, number(s.seen))
	}
	s.seen = zxid
	return nil
}

// Ended says that the client knows that its session is over.
func (s *Session) Ended() { s.ended = true }
