// Package eventqueue passes events to a function of the application that may never return,
// for instance because it logs to a full pipe.
//
// Any number of goroutines may put events. What always holds:
//
//	eventqueue-E1  Put returns at once.
//	eventqueue-E2  Events are delivered in order, one call at a time, in a goroutine
//	               that lasts as long as there are events.
//	eventqueue-E3  The queue is bounded. When it is full, a new event replaces the oldest,
//	               and the next event says how many are missing before it.
//	eventqueue-E4  Of a Source, a full queue drops events that repeat, and groups from their
//	               beginning. So the end of a group is delivered if its beginning was.
//	               A caller of Offer and Skip has to know the groups.
//
// It knows nothing about the content of the events.
package eventqueue

import (
	"sync"
	"time"
)

// Max is how many events may wait, unless Bounded sets another limit.
const Max = 1024

// Queue delivers events to a function. New makes one.
type Queue[E any] struct {
	tell   func(E)
	missed func(*E) *int
	max    int

	mu     sync.Mutex
	queue  []E
	left   int           // events that were dropped, and that no event says yet
	idle   chan struct{} // closed when all events are delivered; nil if there are none
	closed bool
}

// New returns a queue for a function. missed returns the field of an event that holds
// how many events are missing before it.
func New[E any](tell func(E), missed func(*E) *int) *Queue[E] {
	return &Queue[E]{tell: tell, missed: missed, max: Max}
}

// Bounded sets how many events may wait, before the first Put, and returns the queue.
func (q *Queue[E]) Bounded(max int) *Queue[E] {
	q.max = max
	return q
}

// Put adds an event, unless the queue is closed.
func (q *Queue[E]) Put(event E) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(event)
	if len(q.queue) > q.max {
		before := *q.missed(&q.queue[0])
		q.queue = q.queue[1:]
		*q.missed(&q.queue[0]) += before + 1
	}
}

// Offer adds an event, unless the queue is full and the event may be missing: that one is
// dropped and counted. It reports whether the event was added.
func (q *Queue[E]) Offer(event E, mayMiss bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if mayMiss && len(q.queue) >= q.max {
		q.left++
		return false
	}
	*q.missed(&event) += q.left
	q.left = 0
	q.put(event)
	return true
}

// Skip counts an event that was dropped because one before it was.
func (q *Queue[E]) Skip() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left++
}

// Source returns the Put of one of several sources, each with one goroutine at a time, whose
// events form groups, one after the other: begins reports the first event of a group, and
// repeats an event that its group may lack.
func (q *Queue[E]) Source(begins, repeats func(*E) bool) func(E) {
	left := false // the current group is dropped
	return func(event E) {
		switch {
		case begins(&event):
			left = !q.Offer(event, true)
		case left:
			q.Skip()
		default:
			q.Offer(event, repeats(&event))
		}
	}
}

func (q *Queue[E]) put(event E) {
	if q.closed {
		return
	}
	q.queue = append(q.queue, event)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.run()
	}
}

// Wait returns when all events put so far are delivered.
func (q *Queue[E]) Wait() {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

// Close returns when all events put so far are delivered. Nothing is delivered after that.
func (q *Queue[E]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.Wait()
}

// WaitFor is Wait with a time limit, because the function may never return.
func (q *Queue[E]) WaitFor(limit time.Duration) {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

func (q *Queue[E]) run() {
	over := false
	defer func() {
		if !over {
			go q.run() // the function has ended this goroutine (runtime.Goexit)
		}
	}()
	for {
		event, ok := q.next()
		if !ok {
			over = true
			return
		}
		q.tell(event)
	}
}

// next takes the event that has waited longest.
func (q *Queue[E]) next() (event E, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		close(q.idle)
		q.queue, q.idle = nil, nil
		return event, false
	}
	event, q.queue = q.queue[0], q.queue[1:]
	return event, true
}
