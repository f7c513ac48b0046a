package audit

import (
	"time"

	"github.com/conclave-project/conclave/zk"
)

// Batch puts lines of the same moment into the queue. Until End, the log accepts no other lines.
type Batch struct {
	log         *Log
	lines, lost int
	of          zk.SessionID // whose line was the last one lost
}

// Batch begins a batch.
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
	if q.closed || q.queued >= l.opts.QueueBytesMax { // no space: the line need not be built
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

// End hands the lines to the writer.
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

// wake puts a token into the channel, unless it holds one.
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

// stamp is the time at the start of a line. Within a second only the last digits change.
type stamp struct {
	ms   int64
	text []byte
}

func (s *stamp) set(at time.Time) {
	ms := at.UnixMilli()
	switch {
	case s.text != nil && ms == s.ms:
		return
	case s.text != nil && ms >= 0 && ms/1000 == s.ms/1000: // a zone changes only between seconds
		digits, rest := s.text[len(s.text)-3:], ms%1000
		digits[0], digits[1], digits[2] = byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10)
	default:
		s.text = appendStamp(s.text[:0], at)
	}
	s.ms = ms
}

// A client is the cached text with which the lines of a client begin, after the time. The
// list of identities is never changed in place: a connection that proves another identity
// gets a new list.
type client struct {
	session    zk.SessionID
	identities []zk.Identity
	head       []byte // nil: nothing is cached
}

// is reports whether c is the client of an event.
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
	// clientsMax is how many clients the log caches at a time.
	clientsMax = 64
	// headMax is the longest head that is cached.
	headMax = 512
)

// head returns the beginning of the line of an event, after the time. Called with mu held.
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
