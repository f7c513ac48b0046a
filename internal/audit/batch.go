package audit

import (
	"time"

	"github.com/conclave-project/conclave/zk"
)

// Batch puts lines of one moment into the queue. The log takes no others until its End.
type Batch struct {
	log         *Log
	lines, lost int
	of          zk.SessionID // of the last line that was lost
}

// Batch begins one.
func (l *Log) Batch() Batch {
	at := l.opts.Wall()
	l.mu.Lock()
	l.mu.stamp.set(at)
	return Batch{log: l}
}

// Add puts the line of an event into the queue (audit-A2).
func (b *Batch) Add(e *Event) {
	l := b.log
	q := &l.mu
	if q.closed || q.queued >= l.opts.QueueBytesMax { // there is no need to make a line
		b.lost, b.of = b.lost+1, e.Session
		return
	}
	before := len(q.pending)
	q.pending = appendLine(append(q.pending, q.stamp.text...), e, l.head(e))
	bytes := len(q.pending) - before
	if q.queued+bytes > l.opts.QueueBytesMax {
		q.pending = q.pending[:before]
		b.lost, b.of = b.lost+1, e.Session
		return
	}
	q.queued += bytes
	b.lines++
}

// End lets the writer have the lines.
func (b *Batch) End() {
	many := len(b.log.mu.pending) >= gatherBytes
	b.log.mu.Unlock()
	b.log.lose(b.lost, b.of)
	if b.lines == 0 {
		return
	}
	wake(b.log.ready)
	if many {
		wake(b.log.many)
	}
}

// wake leaves a token, unless there is one.
func wake(tokens chan<- struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

// Add puts the line of one event into the queue.
func (l *Log) Add(e *Event) {
	b := l.Batch()
	b.Add(e)
	b.End()
}

// stamp is the moment that begins a line. Of those of one second only the last digits differ.
type stamp struct {
	ms   int64
	text []byte
}

func (s *stamp) set(at time.Time) {
	ms := at.UnixMilli()
	switch {
	case s.text != nil && ms == s.ms:
		return
	case s.text != nil && ms >= 0 && ms/1000 == s.ms/1000: // a zone changes with a second
		digits, rest := s.text[len(s.text)-3:], ms%1000
		digits[0], digits[1], digits[2] = byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10)
	default:
		s.text = appendStamp(s.text[:0], at)
	}
	s.ms = ms
}

// A client is what the lines of one begin with, after the moment. Its list of identities is
// never changed: a connection that proves another one gets a new list.
type client struct {
	session    zk.SessionID
	identities []zk.Identity
	head       []byte // nil: there is none
}

// is reports whether it is the client of an event.
func (c *client) is(e *Event) bool {
	if c.head == nil || c.session != e.Session || len(c.identities) != len(e.Client) {
		return false
	}
	if len(e.Client) == 0 {
		return (c.identities == nil) == (e.Client == nil)
	}
	return &c.identities[0] == &e.Client[0]
}

const (
	// clientsMax is how many clients the log knows at a time.
	clientsMax = 64
	// headMax is how long heads are that are kept.
	headMax = 512
)

// head is what the line of an event begins with. Called with mu held.
func (l *Log) head(e *Event) []byte {
	c := &l.mu.clients[uint64(e.Session)%clientsMax]
	if c.is(e) {
		return c.head
	}
	head := appendHead(c.head[:0], e, l.opts.User)
	if len(head) > headMax {
		*c = client{}
	} else {
		*c = client{e.Session, e.Client, head}
	}
	return head
}
