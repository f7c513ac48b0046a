package holders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/internal/carried"
	"github.com/conclave-project/conclave/internal/healthcheck"
)

// RWLock lets many readers act at a time, or one writer and no reader. It uses places, as a
// Candidate does: a reader holds one of them, a writer all. Both first pass a gate, which is also
// an election, NAME/gate. Over a backend whose Traits say Exclusive, the following always holds:
//
//	holders-W1  A writer acts only while it holds every place, and a reader only while it holds
//	            one. So nobody acts at the same time as a writer, whatever happens to candidates.
//	holders-W2  A reader campaigns for a place only while it holds the gate, or withdraws; and a
//	            writer holds the gate from before its first place until it has acted. So one
//	            writer at a time collects places, and none waits for readers that came after it
//	            had the gate.
//	holders-W3  At the gate a writer has the higher priority, if the backend supports priorities
//	            (Traits.Waiters): it waits only for the readers that act, the one that is at the
//	            gate, and other writers. Readers wait as long as writers keep coming.
//
// A fence checks only a writer's gate, by its token or its key, and not the places: a writer that
// has lost a place still passes the fence while it has the gate. That is enough. Everybody that
// acts after the writer has passed the gate after it (holders-W2); by then the writer had lost
// the gate, and the later tokens are higher.
//
// A writer's cost, renewals included, grows with the number of places: allow no more readers at a
// time than you need.
//
// Its methods may be called by several goroutines at the same time.
type RWLock struct {
	backend election.Backend
	name    string
	readers int
	options election.Options
	events  *events
}

// Held is what a reader or writer holds while it acts. The zero Held never began: its Err is
// election.ErrNotLeader.
type Held struct {
	token election.Token
	leads []election.Leadership
}

// Token returns the fencing token: the token of the gate from when this holder passed it.
// Everybody that comes later has a higher one, so a resource that refuses lower tokens refuses an
// earlier writer. The function's context carries it (fence.TokenOf).
//
// Readers that act at the same time have different tokens, so a resource that refuses every lower
// token also refuses the earlier of two readers. A resource that is to serve both must compare a
// write with the highest token that it has seen, and a read with the highest token of a write.
func (h Held) Token() election.Token { return h.token }

// Err returns nil while the lock is held, and otherwise why it was lost or released. It reads the
// clock, as Leadership.Err does.
func (h Held) Err() error {
	if len(h.leads) == 0 {
		return election.ErrNotLeader
	}
	for _, lead := range h.leads {
		if err := lead.Err(); err != nil {
			return err
		}
	}
	return nil
}

// carry makes the context of the act carry the token, for package fence. Without it the context
// would have the token of the leadership around it, which for a reader is that of its place.
func (h Held) carry(ctx context.Context, around election.Leadership) context.Context {
	return carried.With(ctx, carried.Token{Value: uint64(h.token), Check: h.Err, Inside: around})
}

// NewRWLock returns a lock for at most the given number of readers at a time, 1 to PlacesMax. All
// candidates must use the same number. Options are as for New; Warm and Priority are ignored. It
// does no I/O. An error matches election.ErrInvalid.
func NewRWLock(backend election.Backend, name string, readers int, options election.Options) (*RWLock, error) {
	options.Warm, options.Priority = nil, 0
	options.Health = healthcheck.Shared(options.Health)
	l := &RWLock{backend, name, readers, options, newEvents(options)}
	if _, err := New(backend, name, readers, options); err != nil {
		return nil, err
	}
	_, err := l.gate(0)
	return l, err
}

// gate returns a candidate for the gate.
func (l *RWLock) gate(priority int) (*election.Elector, error) {
	options := l.options
	options.Once, options.Priority, options.OnEvent = true, priority, l.events.source() // see campaign
	gate, err := election.New(l.backend, l.name+"/gate", options)
	if err != nil {
		return nil, fmt.Errorf("gate of %q: %w", l.name, err)
	}
	return gate, nil
}

// Read waits until no writer acts or waits and a place is free, runs the function while this
// candidate may read, and returns what Candidate.Hold returns. But if the function's context has
// ended and the function reports only that, Read returns the cause of the context, so a read that
// an operator ended does not count as a success (ErrResigned). The context ends before anybody
// may write.
func (l *RWLock) Read(ctx context.Context, function func(context.Context, Held) error) error {
	defer l.events.await()
	places, err := newCandidate(l.backend, l.name, l.readers, l.options, l.events)
	if err != nil {
		return err
	}
	gate, err := l.gate(0)
	if err != nil {
		return err
	}
	var last *reading
	after := func() (bool, <-chan struct{}) { return last.state.Load() != withdrawn, last.ended }
	err = campaign(ctx, gate, after, func(atGate context.Context, lead election.Leadership) error {
		last = newReading(ctx, lead)
		go last.run(places, function)
		select {
		case <-last.granted:
		case <-last.ended: // for good
		case <-atGate.Done():
			last.withdraw()
		}
		return nil
	})
	if last == nil {
		return err
	}
	<-last.ended
	if last.state.Load() == withdrawn {
		return err
	}
	return last.err
}

// campaign takes turns at the gate until one of them was the last. After each turn, after
// returns whether it was the last, and a channel that is closed when everything begun in it is
// over. That may be never, if an OnEvent does not return. Because others must get through,
// campaign waits for it without holding the gate.
func campaign(ctx context.Context, gate *election.Elector, after func() (last bool, over <-chan struct{}),
	turn func(atGate context.Context, lead election.Leadership) error) error {
	for {
		had := false
		err := gate.Run(ctx, func(atGate context.Context, lead election.Leadership) error {
			had = true
			return turn(atGate, lead)
		})
		var over <-chan struct{}
		if had {
			last := false
			if last, over = after(); last {
				return err
			}
		}
		lost := (*election.LostError)(nil)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && (!errors.As(err, &lost) || errors.Is(err, election.ErrPermanent)):
			return err
		case !had:
			continue
		}
		select {
		case <-over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reading is one attempt of a reader to get a place.
type reading struct {
	ctx    context.Context
	cancel context.CancelFunc
	gate   election.Leadership

	state   atomic.Int32
	granted chan struct{} // closed when the reader acts
	ended   chan struct{} // closed when everything is over
	err     error         // valid once ended is closed
}

// States of a reading.
const (
	asking int32 = iota
	acting
	withdrawn
)

func newReading(ctx context.Context, gate election.Leadership) *reading {
	r := &reading{gate: gate, granted: make(chan struct{}), ended: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

func (r *reading) run(places *Candidate, function func(context.Context, Held) error) {
	defer close(r.ended)
	defer r.cancel()
	var cut error
	r.err = places.Hold(r.ctx, func(ctx context.Context, place Place) error {
		// While this reader holds a place, nobody writes from now on. But a writer that passed
		// the gate after this reader lost it, with a higher token, may have written before.
		if r.gate.Err() != nil {
			r.withdraw()
		}
		if !r.state.CompareAndSwap(asking, acting) {
			return nil
		}
		close(r.granted)
		held := Held{r.gate.Token(), []election.Leadership{place.Leadership}}
		err := function(held.carry(ctx, place.Leadership), held)
		cut = cutShort(ctx, err)
		return err
	})
	if r.err == nil {
		r.err = cut
	}
}

// withdraw gives up a reading that has no place yet. It does not wait for the places, which may
// take as long as the store does not answer.
func (r *reading) withdraw() {
	if r.state.CompareAndSwap(asking, withdrawn) {
		r.cancel()
	}
}

// Write waits until nobody reads or writes, runs the function while this candidate alone may act,
// and returns the function's error. If the function returns none, or only reports that it was
// told to end, Write returns a *election.LostError if the lock was lost, or the cause of ctx if
// that has ended. A function that was told to end for another reason and reports it was ended by
// an operator, and Write returns that reason (election.ErrResigned). The context ends before
// anybody else may act. A panic of the function propagates out of Write after the lock was
// released.
func (l *RWLock) Write(ctx context.Context, function func(context.Context, Held) error) error {
	defer l.events.await() // also after a panic
	gate, err := l.gate(1)
	if err != nil {
		return err
	}
	var places []*election.Elector
	for i := range l.readers {
		place, err := l.place(i)
		if err != nil {
			return err
		}
		places = append(places, place)
	}
	var last *writing
	defer func() { // also after a panic
		if last != nil {
			<-last.released
		}
	}()
	after := func() (bool, <-chan struct{}) { return last.acted, last.released }
	err = campaign(ctx, gate, after, func(atGate context.Context, lead election.Leadership) error {
		last = newWriting(atGate, lead, len(places))
		return last.run(places, function)
	})
	if last == nil || !last.returned {
		return err
	}
	if lost := (*election.LostError)(nil); last.err == nil && errors.As(last.cause, &lost) {
		return last.cause
	}
	if last.err == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return cmp.Or(last.err, last.cut)
}

// place returns a candidate for one place.
func (l *RWLock) place(i int) (*election.Elector, error) {
	options := l.options
	options.Once, options.OnEvent = false, l.events.source()
	return election.New(l.backend, placeName(l.name, i), options)
}
