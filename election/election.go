// Package election elects one leader among candidates, over any store.
//
// An Elector takes a Backend, the name of an election and a function, and runs the function while
// this candidate leads. Over a backend whose Traits say Exclusive, the following always holds:
//
//	1  The context of the function ends before anybody else may lead, even if the process was
//	   frozen or the machine suspended: the deadline counts from when the last successful request
//	   was sent, less a margin for clocks that differ in rate, on a clock that counts suspension.
//	   Only Linux has such a clock; elsewhere a machine that was suspended finds out with its next
//	   renewal, and the token covers what it did before that.
//	2  Token grows with every leadership. A resource can refuse an older token, which covers what
//	   no deadline can: a request already on its way, a function that does not end.
//	3  The election is released only after the function has returned.
//	4  One EventLost follows every EventElected.
//	5  A leadership is handed over only to a candidate that waits and has warmed up; until then
//	   the old leader continues to lead.
//	6  A candidate that is not healthy neither campaigns nor leads.
//
// Programs use New, Elector, Options, Leadership, Token, View and the events. The rest is for
// authors of backends: Backend, with Claim, Grant, Traits and Guarantees; Nominator and Operator,
// for stores that can do that; Permanent.
//
// The package cannot stop a function that ignores its context, but it reports it
// (Options.OnStuck). It never compares the clocks of two machines.
package election

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/clock"
)

// Defaults of Options.
const (
	LeaseDefault             = 10 * time.Second
	ClockDriftPercentDefault = 5
	ClockDriftPercentMax     = 25
	RetryDefault             = 200 * time.Millisecond
	RetryMaxDefault          = 5 * time.Second
	leaseMax                 = 24 * time.Hour
	idBytesMax               = 200
	graceDefaultPerCent      = 20
	// WarmLimitDefault is how long a hand-over waits for the next leader to warm up.
	WarmLimitDefault = time.Minute
	// PriorityMax is the highest Options.Priority.
	PriorityMax = 1000
	// HealthFailuresDefault is how many checks in a row must fail to make a candidate unhealthy.
	HealthFailuresDefault = 3
)

// Options of an Elector. The zero value is ready to use.
type Options struct {
	// ID names this candidate to people: 1 to 200 bytes of UTF-8 without
	// control characters. Default: host name and process id.
	ID string
	// Lease is how long a leader that has gone silent keeps others out: at least Traits.LeaseMin,
	// at most 24 h. Default 10 s, or Traits.LeaseMin if that is more.
	Lease time.Duration
	// Grace is how long before the deadline the function's context ends, which gives the function
	// time to finish. Default a fifth of the lease, at most half of it. If the store grants a
	// shorter lease than the one asked for, Grace shrinks in proportion.
	Grace time.Duration
	// EndLimit is how long the function may take to end while the leadership still holds: after
	// Resign, a transfer, the end of Run's context, or failed health checks. A function that
	// takes longer is stuck: this is reported (EventStuck, OnStuck), and the leadership is no
	// longer renewed. It runs out, and another candidate leads while the function may still be
	// running. A backend whose Traits lack Expires holds the election until the function or the
	// process has ended. Default the lease; negative means no limit: a stuck function then keeps
	// the election.
	EndLimit time.Duration
	// ClockDriftPercent is by how many per cent the rates of two clocks may differ; that share of
	// each lease is not used. 1 to 25; zero is the default, 5.
	ClockDriftPercent int
	// Retry is the pause after a failed attempt and between two leaderships
	// of this candidate; it doubles with every failure up to RetryMax.
	// Defaults 200 ms and 5 s.
	Retry, RetryMax time.Duration
	// Once makes Run return after the first leadership. Without it Run campaigns again after a
	// leadership has ended, until its context ends or the function has returned an error by
	// itself.
	Once bool
	// MayOverlap accepts a backend whose Traits lack Exclusive: one that may elect two leaders at
	// once, as bully, ring and lowest do under a partition. Only the application can then keep
	// the two apart. Without MayOverlap, New refuses such a backend.
	MayOverlap bool
	// Priority is how much this candidate is preferred: a leader hands over to a waiter with a
	// higher priority than its own, once that waiter has warmed up. 0 to 1000, default 0.
	// Backends whose Traits lack Waiters ignore it.
	Priority int
	// Metadata is what this candidate tells observers of the election about itself, such as an
	// address or a version: any bytes, up to MetadataMax (4 KiB). A View shows it while this
	// candidate waits and leads; it does not affect the election. It stays the same for the life
	// of the Elector. Stores that keep an election in one record (Kubernetes, DynamoDB, S3,
	// Google Cloud Storage, SQL, Redis, NATS) write it with every renewal; the others write it
	// once.
	Metadata []byte
	// Warm makes this candidate ready to lead: it fills caches and opens connections. It is
	// called when this candidate is to lead next by a transfer, while the old leader still leads;
	// the old leader stops only after Warm has returned nil. It is not called when a leader was
	// lost. A panic counts as a failure. One call runs at a time; its context ends when this
	// candidate leads, or no longer waits, and Warm should then return: the function, or Run,
	// waits for it for a quarter of the lease.
	Warm func(context.Context) error
	// WarmLimit is how long this candidate, while it leads, waits for the one it hands over to.
	// If that one is not ready by then, this candidate continues to lead. Default 1 minute.
	WarmLimit time.Duration
	// Health is a check that must pass for this candidate to campaign and to go on leading; see
	// DiskCheck for an example. It is called every HealthEvery, default a quarter of the lease, at
	// least 1 ms, one call at a time; it fails if it returns an error or takes longer than that. After
	// HealthFailures failed checks in a row, default 3, the candidate is unhealthy: it gives up
	// its leadership with ReasonUnhealthy. One check that passes makes it healthy again.
	Health         func(context.Context) error
	HealthEvery    time.Duration
	HealthFailures int
	// OnEvent is called with everything that happens, in order and one call at a time, in a
	// goroutine of its own. A call that does not return holds up nothing for long: the start of
	// the function after EventElected and the return of Run wait for it for a quarter of the
	// lease, Run for at least half a second. Once 256 events wait, others are dropped and counted
	// (Event.Missed). Events that Run did not wait for are delivered later.
	OnEvent func(Event)
	// OnStuck is called, in a goroutine of its own, if the function still runs when its time is
	// over: EndLimit after it was told to end, or when the leadership has ended. Another
	// candidate leads now, or will within a lease. A careful program ends its process here.
	OnStuck func(Leadership)
	// Clock is the clock to use; the backend must use the same one. Nil is the clock of this
	// machine. For tests and simulations.
	Clock clock.Clock
}

// Elector is one candidate in one election, made by New. Its methods may be called
// by several goroutines.
type Elector struct {
	backend Backend
	name    string
	options Options

	teller teller
	served atomic.Bool            // set once the store has served this Elector; see final
	status atomic.Pointer[Status] // what the last Run did last; nil before the first

	mu  sync.Mutex
	run *run // the Run in progress, nil for none
}

// New returns a candidate for the named election. It does no I/O. An error matches
// ErrInvalid.
func New(backend Backend, name string, options Options) (*Elector, error) {
	if backend == nil {
		return nil, fmt.Errorf("election %q: %w", name, &invalidError{errors.New("no backend given")})
	}
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	options, err := options.withDefaults(backend.Traits())
	if err != nil {
		return nil, fmt.Errorf("election %q: %w", name, &invalidError{err})
	}
	return &Elector{backend: backend, name: name, options: options, teller: newTeller(options.OnEvent)}, nil
}

// Name returns the name of the election.
func (e *Elector) Name() string { return e.name }

// ID returns the id of this candidate.
func (e *Elector) ID() string { return e.options.ID }

// Options returns the options in force, defaults filled in.
func (e *Elector) Options() Options {
	options := e.options
	options.Metadata = bytes.Clone(options.Metadata)
	return options
}

// Resign asks for the current leadership to end. It waits until the leadership has been released,
// or is left to expire because the store could not be told in time (EventReleaseFailed), or until
// the context ends. Without a leadership it returns ErrNotLeader. Within the function, for which
// it would wait, call Leadership.Resign.
func (e *Elector) Resign(ctx context.Context) error {
	e.mu.Lock()
	r := e.run
	e.mu.Unlock()
	if r == nil {
		return ErrNotLeader
	}
	return r.resign(ctx)
}

// TransferTo hands over the current leadership to the waiter with the given id. It waits until
// the leadership has been released, or is left to expire as with Resign, or until the context
// ends; the transfer itself then goes on for as long as the waiter may take to warm up. This
// candidate leads while the waiter warms up (Options.Warm), and stays the leader if the transfer
// fails: ErrNoCandidate means that no waiter has this id. Without a leadership it returns
// ErrNotLeader; if the leadership ends for another reason before the waiter is ready, the error
// matches ErrNotLeader and states that reason. If the backend cannot hand over, the error matches
// errors.ErrUnsupported.
func (e *Elector) TransferTo(ctx context.Context, id string) error {
	if e.backend == nil {
		return errNotMade
	}
	if _, ok := e.backend.(Nominator); !ok {
		return fmt.Errorf("election %q: hand over on %s: %w", e.name, e.backend.Traits().Name, errors.ErrUnsupported)
	}
	e.mu.Lock()
	r := e.run
	e.mu.Unlock()
	if r == nil {
		return ErrNotLeader
	}
	return r.transfer(ctx, id)
}

// Observe yields the state of the election: the current View first, then each one that differs,
// until the context ends. A View with Err set means that the store cannot be reached now. It may
// be called without campaigning.
func (e *Elector) Observe(ctx context.Context) iter.Seq[View] {
	return func(yield func(View) bool) {
		if e.backend == nil {
			yield(View{Err: errNotMade})
			return
		}
		for view, err := range e.backend.Observe(ctx, e.name) {
			view.Err = err
			if ctx.Err() != nil || !yield(view) {
				return
			}
		}
	}
}

func (o Options) withDefaults(traits Traits) (Options, error) {
	if o.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			return o, fmt.Errorf("no id given and no host name: %w", err)
		}
		o.ID = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	o.Metadata = bytes.Clone(o.Metadata)
	setDefault(&o.Lease, max(LeaseDefault, traits.LeaseMin))
	setDefault(&o.Grace, o.Lease*graceDefaultPerCent/100)
	setDefault(&o.EndLimit, o.Lease)
	setDefault(&o.WarmLimit, WarmLimitDefault)
	setDefault(&o.Retry, RetryDefault)
	setDefault(&o.RetryMax, max(RetryMaxDefault, o.Retry))
	setDefault(&o.HealthEvery, max(o.Lease/4, time.Millisecond))
	if o.HealthFailures == 0 {
		o.HealthFailures = HealthFailuresDefault
	}
	if o.ClockDriftPercent == 0 {
		o.ClockDriftPercent = ClockDriftPercentDefault
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	return o, o.validate(traits)
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

func (o Options) validate(traits Traits) error {
	leaseMin := max(traits.LeaseMin, 10*time.Millisecond)
	if len(o.ID) > idBytesMax {
		return fmt.Errorf("id has %d bytes, at most %d are allowed", len(o.ID), idBytesMax)
	}
	if err := checkText(o.ID); err != nil {
		return fmt.Errorf("id %q: %w", o.ID, err)
	}
	if err := checkMetadata(o.Metadata); err != nil {
		return err
	}
	switch {
	case !traits.Exclusive && !o.MayOverlap:
		return fmt.Errorf("%s may elect two leaders at once; set MayOverlap if the application can tolerate that", traits.Name)
	case o.Lease < leaseMin || o.Lease > leaseMax:
		return fmt.Errorf("lease %v: must be from %v to %v", o.Lease, leaseMin, leaseMax)
	case o.Grace < 0 || o.Grace > o.Lease/2:
		return fmt.Errorf("grace %v: must be from 0 to half of the lease, %v", o.Grace, o.Lease/2)
	case o.WarmLimit < 0:
		return fmt.Errorf("warm-up limit %v: must not be negative", o.WarmLimit)
	case o.ClockDriftPercent < 1 || o.ClockDriftPercent > ClockDriftPercentMax:
		return fmt.Errorf("clock drift %d %%: must be from 1 to %d %%", o.ClockDriftPercent, ClockDriftPercentMax)
	case o.Priority < 0 || o.Priority > PriorityMax:
		return fmt.Errorf("priority %d: must be from 0 to %d", o.Priority, PriorityMax)
	case o.HealthEvery < time.Millisecond || o.HealthFailures < 0:
		return fmt.Errorf("health checks every %v, %d failures: must be at least 1ms, and not negative", o.HealthEvery, o.HealthFailures)
	case o.Retry < 0 || o.RetryMax < o.Retry:
		return fmt.Errorf("retry %v, at most %v: must not be negative, and the limit not less",
			o.Retry, o.RetryMax)
	}
	return nil
}
