package election

import (
	"time"

	"github.com/conclave-project/conclave/internal/eventqueue"
)

// eventsMax is how many events may wait for a slow OnEvent before further ones are dropped.
const eventsMax = 256

// teller calls Options.OnEvent of an Elector, in order and one call at a time: a logger that
// blocks must not delay a campaign or the end of a run.
//
// The queue is bounded. While it is full, two kinds of events are dropped and counted:
// those that repeat within a leadership, and all events of a campaign that begins now and
// of the leadership it leads to. So a leadership whose beginning was reported always has
// its end reported.
type teller struct {
	queue *eventqueue.Queue[notification] // nil without an OnEvent
}

// notification is an event, and a channel to close after the call of OnEvent (may be nil).
type notification struct {
	event Event
	told  chan struct{}
}

func newTeller(call func(Event)) teller {
	if call == nil {
		return teller{}
	}
	show := func(one notification) {
		defer done(one.told)
		call(one.event)
	}
	return teller{eventqueue.New(show, func(one *notification) *int { return &one.event.Missed }).Bounded(eventsMax)}
}

// tell queues an event without waiting. It returns false if the event was dropped, which
// happens only to an event that repeats or that begins a campaign.
func (t teller) tell(event Event, told chan struct{}) bool {
	if t.queue == nil {
		done(told)
		return true
	}
	kept := t.queue.Offer(notification{event, told}, event.Kind.Repeats() || event.Kind == EventCampaigning)
	if !kept {
		done(told)
	}
	return kept
}

// leaveOut counts an event that belongs to a dropped campaign.
func (t teller) leaveOut(told chan struct{}) {
	t.queue.Skip()
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

// await waits until all events are told, at most for the limit.
func (t teller) await(limit time.Duration) {
	if t.queue != nil {
		t.queue.WaitFor(limit)
	}
}
