package election

import (
	"sync"
	"time"
)

// eventsMax is how many events may wait for an OnEvent that takes its time, before
// others are left out.
const eventsMax = 256

// teller calls Options.OnEvent of an Elector, in order and one call at a time, in a
// goroutine that lasts as long as there is something to tell: a log that nobody reads
// must hold up nothing, no campaign and no end.
//
// The queue is bounded. While it is full, events that repeat are left out and counted,
// and so is a campaign that begins, with all that comes of it: the end is told of each
// leadership whose beginning is.
type teller struct {
	call func(Event)

	mu     sync.Mutex
	queue  []notification
	missed int
	idle   chan struct{} // closed when all is told; nil if nothing is to be told
}

// notification is an event and a channel to be closed when it was told, or nil.
type notification struct {
	event Event
	told  chan struct{}
}

// tell returns at once. It reports whether there was space for the event, or it does
// not repeat and begins nothing.
func (t *teller) tell(event Event, told chan struct{}) bool {
	if t.call == nil {
		done(told)
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) >= eventsMax && (event.Kind.repeats() || event.Kind == EventCampaigning) {
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

// leaveOut counts an event of a campaign that is left out.
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

// repeats reports whether a leadership or an attempt can have any number of these.
func (k EventKind) repeats() bool {
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

// next takes the event that has waited longest.
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

// await waits until everything is told, and no longer than the limit.
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
