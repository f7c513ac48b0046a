// Package holders lets at most N candidates act at a time: Candidate is a semaphore over any
// store that elects. RWLock is a lock for readers and writers that uses the same places.
//
// There are N places, each an election of its own: NAME/places/1 to NAME/places/N. A candidate
// campaigns for all of them, acts in the first that it is granted, and releases any other without
// acting. So over a backend that is Exclusive no more than N candidates act, whatever happens to
// them, as long as each respects its context as the leader of an election does. All candidates
// must use the same N.
//
// A fencing token belongs to a place: it grows within that place, and says nothing about another.
// A resource that refuses old tokens must remember one token for each place.
package holders

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/eventqueue"
	"github.com/conclave-project/conclave/internal/healthcheck"
)

// PlacesMax is the largest N. It is limited because a candidate has a claim in each place's
// election.
const PlacesMax = 64

// Candidate competes for a place. Its methods may be called by several goroutines.
type Candidate struct {
	name     string
	electors []*election.Elector
	events   *events
	holds    atomic.Bool
}

// Place is what a candidate holds while it acts: the leadership of a place.
type Place struct {
	election.Leadership
	// Number is the number of the place, from 1.
	Number int
}

// New returns a candidate for one of n places, 1 to PlacesMax. Options are those of each place's
// Elector. Once is ignored. So is Priority, because a candidate waits for all places, and would
// end the holders of all of them to get the one that it needs. OnEvent is called with the events
// of all places, one call at a time. If it does not return, only Hold waits for it, for a quarter
// of the lease; up to 1024 events wait, and those dropped are counted in Event.Missed. Health is
// called once for all places, up to four times in three HealthEvery. It does no I/O. An error
// matches election.ErrInvalid.
func New(backend election.Backend, name string, n int, options election.Options) (*Candidate, error) {
	if n < 1 || n > PlacesMax {
		return nil, fmt.Errorf("holders of %q: %d places, must be from 1 to %d: %w", name, n, PlacesMax, election.ErrInvalid)
	}
	options.Health = healthcheck.Shared(options.Health)
	return newCandidate(backend, name, n, options, newEvents(options))
}

func newCandidate(backend election.Backend, name string, n int, options election.Options, events *events) (*Candidate, error) {
	options.Once, options.Priority = true, 0
	c := &Candidate{name: name, events: events}
	for i := range n {
		options.OnEvent = events.source()
		e, err := election.New(backend, placeName(name, i), options)
		if err != nil {
			return nil, fmt.Errorf("holders of %q: %w", name, err)
		}
		c.electors = append(c.electors, e)
	}
	return c, nil
}

// placeName returns the name of a place's election; i counts from 0.
func placeName(name string, i int) string { return name + "/places/" + strconv.Itoa(i+1) }

// events passes the events of several elections to OnEvent, one call at a time. If OnEvent does
// not return, nothing is held up, and no goroutines of electors pile up. It is nil without an
// OnEvent.
type events struct {
	queue *eventqueue.Queue[election.Event]
	limit time.Duration // maximum wait for OnEvent
}

// newEvents makes the queue in front of the OnEvent of the options.
func newEvents(options election.Options) *events {
	if options.OnEvent == nil {
		return nil
	}
	lease := options.Lease
	if lease == 0 {
		lease = election.LeaseDefault
	}
	return &events{eventqueue.New(options.OnEvent, func(one *election.Event) *int { return &one.Missed }), max(lease/4, toldMin)}
}

// toldMin is the minimum time to wait until all events have been passed on.
const toldMin = 500 * time.Millisecond

// source returns the OnEvent of one elector. When a function begins, it waits until the event is
// passed on, so that a span or a metric exists by then.
func (e *events) source() func(election.Event) {
	if e == nil {
		return nil
	}
	put := e.queue.Source(func(one *election.Event) bool { return one.Kind == election.EventCampaigning },
		func(one *election.Event) bool { return one.Kind.Repeats() })
	return func(one election.Event) {
		put(one)
		if one.Kind == election.EventElected {
			e.queue.WaitFor(e.limit)
		}
	}
}

// await waits until all events have been passed on, but no longer than the limit.
func (e *events) await() {
	if e != nil {
		e.queue.WaitFor(e.limit)
	}
}

// Hold waits for a place, runs the function while this candidate holds it, and returns what
// Elector.Run returns with Options.Once. If it never held a place, it returns the cause of ctx,
// or the errors of the places once none is left to wait for. An error that matches
// election.ErrRunning means that another Hold of this Candidate has not returned. A panic of the
// function ends the process.
func (c *Candidate) Hold(ctx context.Context, function func(context.Context, Place) error) error {
	if !c.holds.CompareAndSwap(false, true) {
		return fmt.Errorf("holders of %q: %w", c.name, election.ErrRunning)
	}
	defer c.holds.Store(false)
	defer c.events.await()
	h := &hold{kept: -1, cancels: make([]context.CancelFunc, len(c.electors))}
	contexts := make([]context.Context, len(c.electors))
	for i := range contexts {
		contexts[i], h.cancels[i] = context.WithCancel(ctx)
		defer h.cancels[i]()
	}
	failures := make([]error, len(c.electors))
	var campaigns sync.WaitGroup
	for _, i := range rand.Perm(len(c.electors)) { // in random order, so that candidates do not all begin with the same place
		campaigns.Go(func() {
			failures[i] = c.electors[i].Run(contexts[i], func(ctx context.Context, lead election.Leadership) error {
				if !h.keep(i) {
					return nil
				}
				return function(ctx, Place{lead, i + 1})
			})
		})
	}
	campaigns.Wait()
	switch {
	case h.kept >= 0:
		return failures[h.kept]
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("holders of %q: %w", c.name, errors.Join(failures...))
}

// hold is one call of Hold.
type hold struct {
	mu      sync.Mutex
	kept    int // the place that was granted first, -1 for none
	cancels []context.CancelFunc
}

// keep reports whether this place is the one to act in. If so, it withdraws from the others.
func (h *hold) keep(i int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept >= 0 {
		return false
	}
	h.kept = i
	for j, cancel := range h.cancels {
		if j != i {
			cancel()
		}
	}
	return true
}
