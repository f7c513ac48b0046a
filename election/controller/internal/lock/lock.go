// Package lock lets client-go's leader election lead exactly while an Elector of ours does.
//
// A Lock is a resourcelock.Interface: client-go's loop asks it for the record of the
// election (Get), and whether it may write its own name into it (Update). It answers from
// memory, by what the Elector holds; only the Elector asks the store. What always holds:
//
//	lock-K1  Update says yes only while the leadership holds for at least
//	         Options.Keep more, renewed for that if need be. A client-go loop that ends
//	         so much later at the latest thus ends before anybody else may lead.
//	lock-K2  The leadership is released only when client-go asks for that
//	         (ReleaseOnCancel) and was stopped, or Finish is called. Otherwise it runs
//	         out: a loop that has given up releases before it tells its function to end.
//	lock-K3  A loop that still runs when its leadership is over is stuck: OnStuck is
//	         called, once and at once (with Options.Finished after the grace), which
//	         ends the process unless the user has another way.
//	lock-K4  A candidate whose loop has ended campaigns no more, whether it has led or
//	         not.
//
// Get waits while somebody else leads: client-go, which polls, learns of its turn at once.
package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/conclave-project/conclave/election"
)

// Options of a Lock.
type Options struct {
	// Keep is how much longer a leadership must hold when Update says yes.
	Keep time.Duration
	// Others makes Get return when another leader is seen, so client-go calls OnNewLeader.
	// It costs one read of the store for every change.
	Others bool
	// Finished makes Finish and Stop decide when the leadership ends, instead of
	// client-go's loop, which gets a yes until then.
	Finished bool
	// OnElected, if not nil, is called with the context of each leadership before
	// client-go learns of it.
	OnElected func(context.Context, election.Leadership)
}

// Lock is a resourcelock.Interface for one LeaderElector at a time. Its methods may be
// called by several goroutines.
type Lock struct {
	elector *election.Elector
	backend string
	options Options
	onStuck func(election.Leadership)

	mu  sync.Mutex
	now *campaign // the latest one; nil before the first
}

var _ resourcelock.Interface = (*Lock)(nil)

// New returns a Lock. It does no I/O: the first Get begins to campaign. An error matches
// election.ErrInvalid.
func New(backend election.Backend, name string, elector election.Options, options Options) (*Lock, error) {
	l := &Lock{options: options, onStuck: elector.OnStuck}
	if l.onStuck == nil {
		l.onStuck = endProcess
	}
	elector.Once = true // each campaign is one call of Run
	elector.OnStuck = l.stuck
	var err error
	if l.elector, err = election.New(backend, name, elector); err != nil {
		return nil, err
	}
	l.backend = backend.Traits().Name
	return l, nil
}

// endProcess is the default of OnStuck: code that still runs must not act any more.
func endProcess(lead election.Leadership) {
	fmt.Fprintf(os.Stderr, "election %q: the leadership with token %d is over and what it started still runs: "+
		"this process ends, so that no two act\n", lead.Election(), lead.Token())
	os.Exit(1)
}

// stuck calls OnStuck, unless everything that the leader has started has ended, or OnStuck
// was called before. If OnStuck lets the process continue, it is responsible for ending
// that work: nothing here waits for it any longer.
func (l *Lock) stuck(lead election.Leadership) {
	l.mu.Lock()
	c := l.now
	news := c != nil && !c.over && !c.stuck
	if news {
		c.stuck = true
	}
	l.mu.Unlock()
	if !news {
		return
	}
	l.onStuck(lead)
	l.mu.Lock()
	defer l.mu.Unlock()
	c.end(true)
}

// Leadership returns the last leadership that was reported to client-go, and the zero
// Leadership before the first.
func (l *Lock) Leadership() election.Leadership {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil || !l.now.taken {
		return election.Leadership{}
	}
	return l.now.lead
}

// Elector returns the candidate.
func (l *Lock) Elector() *election.Elector { return l.elector }

// Get returns the record of the election once there is something to report: this candidate
// leads, or another one does that was not reported yet. It begins a campaign if none is
// under way, and ends it if the context of that call ends before Update has said yes.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	for {
		c, err := l.campaign(ctx)
		if err != nil {
			return nil, nil, err
		}
		select {
		case <-c.led:
		case <-c.other:
			return l.record(c.leader(), time.Time{})
		case <-c.ended:
			return nil, nil, c.err
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		switch err := c.lead.Err(); {
		case err == nil, l.options.Finished && l.isTaken(c):
			return l.record(l.Identity(), c.since)
		case l.isTaken(c):
			return nil, nil, err
		}
		<-c.ended // it was lost before client-go learned of it: begin the next campaign
	}
}

// record returns the record that client-go reads.
func (l *Lock) record(holder string, since time.Time) (*resourcelock.LeaderElectionRecord, []byte, error) {
	seconds := (l.elector.Options().Lease + time.Second - 1) / time.Second
	r := &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: int(seconds),
		AcquireTime: meta.NewTime(since), RenewTime: meta.Now()}
	text, err := json.Marshal(r)
	return r, text, err
}

// Create calls Update: client-go calls it if there is no record, but Get always returns
// one.
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

// Update reports whether client-go leads (lock-K1): nil means yes. A record without a
// holder releases the leadership, and Update waits until that is done. After a no, the
// leadership is left to expire (lock-K2).
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" {
		return l.release(ctx)
	}
	l.mu.Lock()
	c := l.now
	l.mu.Unlock()
	if c == nil || !isClosed(c.led) {
		return election.ErrNotLeader
	}
	if l.options.Finished && l.isTaken(c) {
		return nil
	}
	err := c.lead.Ensure(ctx, l.options.Keep)
	l.mu.Lock()
	defer l.mu.Unlock()
	c.refused = err != nil && !errors.Is(err, context.Canceled) // cancellation is no answer
	switch {
	case err != nil:
		return err
	case c.over:
		return election.ErrNotLeader
	}
	c.taken = true
	return nil
}

// stopped is the event that client-go records when its loop has ended.
const stopped = "stopped leading"

// RecordEvent learns that client-go's loop has ended. The events themselves are recorded by
// the backend, for all candidates.
func (l *Lock) RecordEvent(what string) {
	if what == stopped && !l.options.Finished {
		l.end(true)
	}
}

// Identity returns the candidate's id.
func (l *Lock) Identity() string { return l.elector.ID() }

// Describe returns the name of the election in client-go's log.
func (l *Lock) Describe() string { return l.backend + "/" + l.elector.Name() }

// release ends the leadership, and waits until others may lead or ctx ends.
func (l *Lock) release(ctx context.Context) error {
	l.mu.Lock()
	refused := l.now == nil || l.now.refused
	l.mu.Unlock()
	if refused {
		return fmt.Errorf("%w as far as it knows: the leadership runs out", election.ErrNotLeader)
	}
	c := l.end(false)
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("the release is under way"), context.Cause(ctx))
	}
}

// Finish ends the campaign or the leadership. With release it waits until the election was
// released, or its time is over; without, the leadership expires. Everything that the
// leader has started must have ended.
func (l *Lock) Finish(release bool) {
	if c := l.end(!release); c != nil && (release || !l.isTaken(c)) {
		<-c.ended
	}
}

// Stop tells the Elector to end the leadership although work that the leader has started
// still runs: it has Options.EndLimit to end, and is stuck after that.
func (l *Lock) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		l.now.cancel()
	}
}
