// Package eventqueue stands between what happens and a function of the program that is told
// of it, and that may never return: a log is a full pipe.
//
// In go events, from any number of goroutines. Out come calls of the function with the
// same events. What always holds:
//
//	eventqueue-E1  Put returns at once.
//	eventqueue-E2  Events are told in order, one call at a time, in a goroutine that lasts
//	               as long as there are some.
//	eventqueue-E3  The queue is bounded. What has no space takes that of the oldest, and the
//	               next event says how many are missing before it.
//
// It knows nothing of what the events tell.
package eventqueue

import (
	"sync"
	"time"
)

// Max is how many events may wait, unless the queue is Bounded otherwise.
const Max = 1024

// Queue tells events. It is made by New.
type Queue[E any] struct {
	tell   func(E)
	missed func(*E) *int
	max    int

	mu     sync.Mutex
	queue  []E
	idle   chan struct{} // closed when all is told; nil if nothing is to be told
	closed bool
}

// New returns a queue for a function. missed returns where an event says how many are
// missing before it.
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
	if q.closed {
		return
	}
	q.queue = append(q.queue, event)
	if len(q.queue) > q.max {
		before := *q.missed(&q.queue[0])
		q.queue = q.queue[1:]
		*q.missed(&q.queue[0]) += before + 1
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.run()
	}
}

// Wait returns when all that was put is told.
func (q *Queue[E]) Wait() {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

// Close returns when all that was put is told. Nothing is told after that.
func (q *Queue[E]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.Wait()
}

// WaitFor is Wait, for no longer than a limit: the function may never return.
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
