package server

import (
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// peerInboxMax is how many bytes from other servers may wait for the loop. Beyond it reading
// from them stops until the loop has taken what is there: a server that sends too much has to
// wait, and so does a stranger that claims to be a server.
const peerInboxMax = 32 << 20

// eventBytes is the approximate memory of an event, without what it carries.
const eventBytes = 256

// messageBytes returns the approximate memory of a message of another server.
func messageBytes(m *zab.Message) int64 {
	n := eventBytes + len(m.Payload) + 16*len(m.Touches)
	if m.Request != nil {
		n += len(m.Request.Body)
		for _, who := range m.Request.Identities {
			n += 32 + len(who.Scheme) + len(who.ID)
		}
	}
	return int64(n)
}

// peerBytesOf returns the bytes of a batch that came from other servers.
func peerBytesOf(batch []replica.Event) int64 {
	n := int64(0)
	for i := range batch {
		switch e := &batch[i]; e.Kind {
		case replica.EventMessage:
			n += messageBytes(e.Message)
		case replica.EventNotification:
			n += int64(eventBytes + len(e.Notification.Config) + len(e.Notification.Proposed))
		}
	}
	return n
}

// putFromPeer waits until there is space for the events of another server, and then puts them
// into the inbox. If this server is closing, it drops them.
func (s *Server) putFromPeer(events ...replica.Event) {
	for s.peerBytes.Load() > peerInboxMax {
		select {
		case <-s.peersEased:
		case <-s.done.Done():
			return
		}
	}
	s.peerBytes.Add(peerBytesOf(events))
	s.easePeers() // for the next one that waits
	s.inbox.put(events...)
}

// taken subtracts what the loop has taken.
func (s *Server) taken(batch []replica.Event) {
	if n := peerBytesOf(batch); n > 0 {
		s.peerBytes.Add(-n)
		s.easePeers()
	}
}

// easePeers wakes a connection that waits, if there is space.
func (s *Server) easePeers() {
	if s.peerBytes.Load() > peerInboxMax {
		return
	}
	select {
	case s.peersEased <- struct{}{}:
	default:
	}
}
