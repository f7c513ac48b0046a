package election

import (
	"sync"
	"time"
)

// eventsMax is how many events may wait for a slow OnEvent before further ones are dropped.
const eventsMax = 256

// teller calls Options.OnEvent of an Elector, in order and one call at a time. Its
// goroutine lasts only while events wait. A logger that blocks must not delay a campaign or
// the end of a run.
//
// The queue is bounded. While it is full, two kinds of events are dropped and counted:
// those that repeat within a leadership, and all events of a campaign that begins now and
// of the leadership it leads to. So a leadership whose beginning was reported always has
// its end reported.
type teller struct {
	call func(Event)

	mu     sync.Mutex
	queue  []notification
	missed int
	idle   chan struct{} // closed when the queue is empty; nil if it already is
}

// notification is an event, and a channel to close after the call of OnEvent (may be nil).
type notification struct {
	event Event
	told  chan struct{}
}

// tell queues an event without waiting. It returns false if the event was dropped, which
// happens only to an event that repeats or that begins a campaign.
func (t *teller) tell(event Event, told chan struct{}) bool {
	if t.call == nil {
		done(told)
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) >= eventsMax && (event.Kind.Repeats() || event.Kind == EventCampaigning) {
		t.missed++
		done(told)
		return false
	}
	event.Missed, t.missed = t.missed, 0
	t.queue = append(t.queue, notification{event, told})
	if t.idle == nil {
		t.idle = make(chan struct{})
		go t.run()
	}
	return true
}

// leaveOut counts an event that belongs to a dropped campaign.
func (t *teller) leaveOut(told chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed++
	done(told)
}

func done(told chan struct{}) {
	if told != nil {
		close(told)
	}
}

// Repeats reports whether this kind can occur any number of times in a leadership or an attempt.
// While OnEvent is too slow, only such events are dropped, and whole campaigns (Event.Missed).
func (k EventKind) Repeats() bool {
	switch k {
	case EventRenewed, EventRenewFailed, EventHealthFailed, EventNominated:
		return true
	}
	return false
}

func (t *teller) run() {
	over := false
	defer func() {
		if !over {
			go t.run() // OnEvent has ended this goroutine (runtime.Goexit)
		}
	}()
	for {
		one, ok := t.next()
		if !ok {
			over = true
			return
		}
		t.show(one)
	}
}

func (t *teller) show(one notification) {
	defer done(one.told)
	t.call(one.event)
}

// next removes the oldest event from the queue.
func (t *teller) next() (one notification, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		close(t.idle)
		t.queue, t.idle = nil, nil
		return one, false
	}
	one, t.queue = t.queue[0], t.queue[1:]
	return one, true
}

// await waits until the queue is empty, at most for the limit.
func (t *teller) await(limit time.Duration) {
	t.mu.Lock()
	idle := t.idle
	t.mu.Unlock()
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
