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

// PlacesMax is the greatest N. It is limited because a candidate has a claim in each place's
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
	// Number is that of the place, from 1.
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
	options.Once, options.Priority = true, 0
	c := &Candidate{name: name, events: newEvents(&options)}
	options.Health = healthcheck.Shared(options.Health)
	for i := range n {
		e, err := election.New(backend, placeName(name, i), options)
		if err != nil {
			return nil, fmt.Errorf("holders of %q: %w", name, err)
		}
		c.electors = append(c.electors, e)
	}
	return c, nil
}

// placeName names the election of a place, counted from 0 here.
func placeName(name string, i int) string { return name + "/places/" + strconv.Itoa(i+1) }

// events tell OnEvent the events of several elections, one call at a time. One that does not
// return holds up nothing, and gathers no goroutines of electors that wait for their turn.
// It is nil without an OnEvent.
type events struct {
	queue *eventqueue.Queue[election.Event]
	limit time.Duration // to be waited for at most
}

// newEvents puts a queue before the OnEvent of the options.
func newEvents(options *election.Options) *events {
	if options.OnEvent == nil {
		return nil
	}
	lease := options.Lease
	if lease == 0 {
		lease = election.LeaseDefault
	}
	e := &events{eventqueue.New(options.OnEvent, func(one *election.Event) *int { return &one.Missed }), max(lease/4, toldMin)}
	options.OnEvent = e.tell
	return e
}

// toldMin is the least that is waited for until all is told.
const toldMin = 500 * time.Millisecond

// tell waits for OnEvent where a function does, so that a span or a metric is there.
func (e *events) tell(one election.Event) {
	e.queue.Put(one)
	if one.Kind == election.EventElected {
		e.queue.WaitFor(e.limit)
	}
}

// await waits until all is told, and no longer than the limit.
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
	for _, i := range rand.Perm(len(c.electors)) { // so that not all begin with the same
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

// keep reports whether this place is the one to act in, and withdraws from the others
// if so.
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
