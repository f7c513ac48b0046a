package election

import (
	"context"
	"sync"
)

// eventsMax is how many events may wait for an OnEvent that takes its time,
// before those that come again and again are left out.
const eventsMax = 256

// teller calls Options.OnEvent, in order and one call at a time, in a goroutine
// of its own: a log that nobody reads must not hold up a leadership's end.
//
// The queue is bounded, and no leadership's beginning or end is ever left out:
// while it is full, events that repeat are counted instead, and no attempt to be
// elected begins.
type teller struct {
	call  func(Event)
	ended chan struct{}

	mu     sync.Mutex
	queue  []notification
	missed int
	closed bool
	news   chan struct{} // something to do; of size 1
	space  chan struct{} // closed and made again when the queue is no longer full
}

// notification is an event and a channel to be closed when it was told, or nil.
type notification struct {
	event Event
	told  chan struct{}
}

func newTeller(call func(Event)) *teller {
	t := &teller{call: call, ended: make(chan struct{}), news: make(chan struct{}, 1), space: make(chan struct{})}
	if call == nil {
		close(t.ended)
	} else {
		go t.run()
	}
	return t
}

func (t *teller) tell(event Event, told chan struct{}) {
	if t.call == nil {
		if told != nil {
			close(told)
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) >= eventsMax && event.Kind.repeats() {
		t.missed++
		return
	}
	event.Missed, t.missed = t.missed, 0
	t.queue = append(t.queue, notification{event, told})
	t.wake()
}

// repeats reports whether a leadership or an attempt can have any number of these.
func (k EventKind) repeats() bool {
	switch k {
	case EventRenewed, EventRenewFailed, EventHealthFailed, EventNominated:
		return true
	}
	return false
}

func (t *teller) wake() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

func (t *teller) run() {
	over := false
	defer func() {
		if over {
			close(t.ended)
		} else {
			go t.run() // OnEvent has ended this goroutine (runtime.Goexit)
		}
	}()
	for {
		one, ok, closed := t.next()
		switch {
		case ok:
			t.show(one)
		case closed:
			over = true
			return
		default:
			<-t.news
		}
	}
}

func (t *teller) show(one notification) {
	if one.told != nil {
		defer close(one.told)
	}
	t.call(one.event)
}

// next takes the event that has waited longest.
func (t *teller) next() (one notification, ok, closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		return one, false, t.closed
	}
	one = t.queue[0]
	t.queue = t.queue[1:]
	if len(t.queue) == eventsMax-1 {
		close(t.space)
		t.space = make(chan struct{})
	}
	return one, true, false
}

// await returns when there is space for the events of another attempt.
func (t *teller) await(ctx context.Context) error {
	for {
		t.mu.Lock()
		full, space := len(t.queue) >= eventsMax, t.space
		t.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-space:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// close waits until everything is told.
func (t *teller) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wake()
	<-t.ended
}
