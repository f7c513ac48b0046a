package election_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// passing refuses an attempt with a permanent error whenever it is told to.
type passing struct {
	*electiontest.Store
	refusals chan error // one for each attempt
}

func (p passing) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	if err := <-p.refusals; err != nil {
		return election.Grant{}, err
	}
	return p.Store.Acquire(ctx, claim)
}

// jumping is a clock that stands, except for jumps. Its timers are the system's, so the
// pauses between attempts pass.
type jumping struct{ now atomic.Int64 }

func (j *jumping) Now() clock.Instant { return clock.Instant(j.now.Load()) }

func (j *jumping) Timer(at clock.Instant) clock.Timer {
	fired := make(chan struct{})
	return &slowTimer{fired, time.AfterFunc(at.Sub(j.Now()), func() {
		for now := j.now.Load(); now < int64(at) && !j.now.CompareAndSwap(now, int64(at)); now = j.now.Load() {
		}
		close(fired)
	})}
}

// TestCandidateOutlivesARefusalOfAStoreThatHasServedIt: it has led, even in another Run, or
// has waited for long. A closed backend still ends it.
func TestCandidateOutlivesARefusalOfAStoreThatHasServedIt(t *testing.T) {
	refusal := election.Permanent(errors.New("404 from a proxy"))
	closed := election.Permanent(election.ErrClosed)
	lead := func(context.Context, election.Leadership) error { return nil }
	store, l := passing{electiontest.NewStore(nil), make(chan error, 10)}, &log{}
	e := elector(t, store, election.Options{Once: true, OnEvent: l.add})
	run := func(answers ...error) error {
		t.Helper()
		for _, err := range answers {
			store.refusals <- err
		}
		return e.Run(awaittest.Within(t), lead)
	}
	if err := run(refusal); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("a refusal of what was never served: %v", err)
	}
	if err := run(nil); err != nil {
		t.Fatal(err)
	}
	told := l.count(election.EventCampaignFailed)
	if err := run(refusal, refusal, nil); err != nil {
		t.Errorf("refusals of what has led: %v", err)
	}
	if again := l.count(election.EventCampaignFailed); again != told+2 {
		t.Errorf("%d refusals were told, of 2", again-told)
	}
	if err := run(refusal, closed); !errors.Is(err, election.ErrClosed) {
		t.Errorf("a backend that was closed: %v", err)
	}
}

// lasting is a store whose attempts take a time.
type lasting struct {
	passing
	clock *jumping
	times []time.Duration
}

func (s *lasting) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	if len(s.times) > 0 {
		s.clock.now.Add(int64(s.times[0]))
		s.times = slices.Delete(s.times, 0, 1)
	}
	return s.passing.Acquire(ctx, claim)
}

func TestCandidateOutlivesARefusalAfterALongWait(t *testing.T) {
	refusal := election.Permanent(errors.New("404 from a proxy"))
	for _, waited := range []time.Duration{time.Second, time.Hour} {
		clock := &jumping{}
		store := &lasting{passing{electiontest.NewStore(clock), make(chan error, 2)}, clock, []time.Duration{waited}}
		store.refusals <- refusal
		store.refusals <- nil
		e := elector(t, store, election.Options{Once: true, Clock: clock})
		err := e.Run(awaittest.Within(t), func(context.Context, election.Leadership) error { return nil })
		if ended := errors.Is(err, election.ErrPermanent); ended != (waited == time.Second) {
			t.Errorf("a refusal after %v: %v", waited, err)
		}
	}
}
