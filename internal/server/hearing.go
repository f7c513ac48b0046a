package server

import (
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// hearingMax is how many bytes of what other servers say may wait for the loop.
// Beyond it nothing more is read of them until the loop has taken what is there:
// the one that says too much has to wait, and so does the one that is no server at all.
const hearingMax = 32 << 20

// eventBytes is about what an event holds that is said on every connection.
const eventBytes = 256

// messageBytes is about what a message of another server takes in memory.
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

// heardBytes is what a batch holds of what other servers have said.
func heardBytes(batch []replica.Event) int64 {
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

// hear waits until there is space for what a server has said, then puts it into the
// inbox. At the server's end it drops it.
func (s *Server) hear(events ...replica.Event) {
	for s.heard.Load() > hearingMax {
		select {
		case <-s.heardEased:
		case <-s.done.Done():
			return
		}
	}
	s.heard.Add(heardBytes(events))
	s.easeHearing() // for the next who waits
	s.inbox.put(events...)
}

// taken counts off what the loop has taken.
func (s *Server) taken(batch []replica.Event) {
	if n := heardBytes(batch); n > 0 {
		s.heard.Add(-n)
		s.easeHearing()
	}
}

// easeHearing wakes one who waits, if there is space.
func (s *Server) easeHearing() {
	if s.heard.Load() > hearingMax {
		return
	}
	select {
	case s.heardEased <- struct{}{}:
	default:
	}
}
