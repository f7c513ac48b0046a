package clientsession

import "github.com/conclave-project/conclave/zk"

// Outcome is what is known about the effect of a request that has ended.
type Outcome uint8

// The outcomes. The zero value is the one that promises nothing.
const (
	Unknown    Outcome = iota // a write that was sent and not answered
	NotApplied                // a read, never sent, or refused by the server
	Applied                   // the server said so
)

// String returns the outcome as text.
func (o Outcome) String() string {
	switch o {
	case NotApplied:
		return "not applied"
	case Applied:
		return "applied"
	}
	return "unknown whether applied"
}

// Call is one request. The shell sets the exported fields before it submits the call, and
// must not touch Request until the call is completed.
type Call struct {
	Request zk.Request
	Watch   *Watch // armed by this request if it succeeds; else nil
	Owner   any    // belongs to the shell and is never read here; nil for the machine's own calls

	seq    int64 // position in the order of sending, from 1
	sentMs int64
	stage  stage
	// inherits: this call takes over the server's persistent watch of a dropped Watch of
	// the same kind at the same path.
	inherits bool
}

// stage is the state of a call.
type stage uint8

const (
	stageNew     stage = iota
	stageWaiting       // for a connection, or with a credential for an answer
	stagePending       // sent
	stageGone          // sent, completed by Cancel; its reply is still to come
	stageDone
)

// Reset makes a completed call usable again, for pools. It returns false if that is not
// allowed: the machine keeps a cancelled call until its reply comes. It must not be called
// while the machine may be running.
func (c *Call) Reset() bool {
	if c.stage != stageDone && c.stage != stageNew {
		return false
	}
	*c = Call{Owner: c.Owner}
	return true
}

// queue is a ring buffer of calls, oldest first.
type queue struct {
	ring []*Call // length is a power of two, or zero
	head int
	size int
}

func (q *queue) len() int { return q.size }

// at returns the i-th call, counted from the oldest.
func (q *queue) at(i int) *Call { return q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) push(c *Call) {
	if q.size == len(q.ring) {
		grown := make([]*Call, max(16, 2*len(q.ring)))
		for i := range q.size {
			grown[i] = q.at(i)
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.size)&(len(q.ring)-1)] = c
	q.size++
}

// pop removes and returns the oldest call; nil if there is none.
func (q *queue) pop() *Call {
	if q.size == 0 {
		return nil
	}
	c := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.size--
	return c
}

// remove removes c from any place. It takes linear time and is only for cancelling.
func (q *queue) remove(c *Call) {
	for range q.size {
		if other := q.pop(); other != c {
			q.push(other)
		}
	}
}
