package election_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestBlockedLogDoesNotHoldUpTheEndOfALeadership: OnEvent blocks, like a log on a pipe that
// nobody reads, while the store loses renewals. The function must be told before anybody
// else leads.
func TestBlockedLogDoesNotHoldUpTheEndOfALeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		inner := electiontest.NewStore(c)
		store := electiontest.NewFaulty(inner)
		free, blocked := make(chan struct{}), make(chan struct{})
		e := elector(t, store, election.Options{Once: true, ID: "a", Lease: 400 * time.Millisecond, Clock: c, OnEvent: func(ev election.Event) {
			if ev.Kind == election.EventRenewFailed {
				select {
				case <-blocked:
				default:
					close(blocked)
				}
				<-free
			}
		}})
		leads, done := make(chan context.Context, 1), make(chan struct{})
		go func() {
			defer close(done)
			_ = e.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
				leads <- ctx
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		old := <-leads
		store.LoseReplies("renew", 1000)
		<-blocked
		store.Cut()
		other := elector(t, inner, election.Options{Once: true, ID: "b", Lease: 400 * time.Millisecond, Clock: c})
		_ = other.Run(awaittest.Within(t), func(context.Context, election.Leadership) error {
			select {
			case <-old.Done():
			default:
				t.Error("b leads, and the context of a's function is not done")
			}
			return nil
		})
		close(free)
		<-done
	})
}

// TestBlockedLogHoldsUpNoCampaignAndLosesNoEnd: with OnEvent blocked, the queue of events
// stays small, and leaderships continue, also those of another Run. In the events that are
// reported later, each beginning has its end, and events that are left out are counted.
func TestBlockedLogHoldsUpNoCampaignAndLosesNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		l, free := &log{}, make(chan struct{})
		turns := 0
		e := elector(t, electiontest.NewStore(c), election.Options{Clock: c, Retry: time.Millisecond, RetryMax: time.Millisecond,
			OnEvent: func(ev election.Event) {
				<-free
				l.add(ev)
			}})
		lead := func(turns *int, until int) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_ = e.Run(ctx, func(context.Context, election.Leadership) error {
				if *turns++; *turns == until {
					cancel()
				}
				return nil
			})
		}
		const each = 200
		lead(&turns, each)
		began := time.Now()
		lead(&turns, 2*each)
		if turns != 2*each || time.Since(began) > each*election.LeaseDefault {
			t.Errorf("%d leaderships while OnEvent does not return", turns)
		}
		close(free)
		synctest.Wait()
		later := 0
		lead(&later, 1)
		elected, lost, missed := l.count(election.EventElected), l.count(election.EventLost), 0
		for _, one := range l.events {
			missed += one.Missed
		}
		const perTurn = 4 // campaigning, elected, ending, lost
		if told := len(l.events); elected != lost || elected < 50 || told > 300 || told+missed < perTurn*(2*each+1) {
			t.Errorf("told of %d beginnings and %d ends; %d events are told and %d missed", elected, lost, told, missed)
		}
	})
}

// TestWedgedFunctionIsReportedAndTheElectionGoesOn: the function ignores its context while
// the store is well. After EndLimit this is reported, and the lease expires, so another
// candidate leads.
func TestWedgedFunctionIsReportedAndTheElectionGoesOn(t *testing.T) {
	for _, how := range []string{"unhealthy", "resigned", "stopped"} {
		t.Run(how, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { wedged(t, how) }) })
	}
}

func wedged(t *testing.T, how string) {
	c := electiontest.VirtualClock(1)
	var sick atomic.Bool
	l, store := &log{}, electiontest.NewStore(c)
	stuck := make(chan election.Token, 10)
	o := election.Options{Once: true, ID: "a", Lease: time.Second, Clock: c, EndLimit: 300 * time.Millisecond, OnEvent: l.add,
		OnStuck: func(lead election.Leadership) { stuck <- lead.Token() }}
	if how == "unhealthy" {
		o.Health = func(context.Context) error {
			if sick.Load() {
				return errors.New("sick")
			}
			return nil
		}
		o.HealthEvery, o.HealthFailures = 10*time.Millisecond, 2
	}
	e := elector(t, store, o)
	ctx, cancel := context.WithCancel(awaittest.Within(t))
	defer cancel()
	leads, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Run(ctx, func(context.Context, election.Leadership) error { close(leads); <-free; return nil })
	}()
	<-leads
	began := time.Now()
	switch how {
	case "unhealthy":
		sick.Store(true)
	case "resigned":
		go func() { _ = e.Resign(awaittest.Within(t)) }()
	case "stopped":
		cancel()
	}
	other := elector(t, store, election.Options{Once: true, ID: "b", Lease: time.Second, Clock: c})
	if err := other.Run(awaittest.Within(t), func(_ context.Context, lead election.Leadership) error {
		if took := time.Since(began); took < 300*time.Millisecond {
			t.Errorf("another leads after %v already: the function had its time", took)
		}
		if token := <-stuck; token >= lead.Token() {
			t.Errorf("token %d is stuck, and %d leads", token, lead.Token())
		}
		return nil
	}); err != nil {
		t.Errorf("nobody else was elected: %v", err)
	}
	close(free)
	<-done
	if stuck, lost := l.count(election.EventStuck), l.count(election.EventLost); stuck != 1 || lost != 1 {
		t.Errorf("told %d times that it is stuck, %d times that it is lost", stuck, lost)
	}
}

// TestStoreThatGoesSilentLeavesATrace: no answer comes, neither good nor bad.
func TestStoreThatGoesSilentLeavesATrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		store := electiontest.NewFaulty(electiontest.NewStore(c))
		l := &log{}
		e := elector(t, store, election.Options{Once: true, Lease: 400 * time.Millisecond, Clock: c, OnEvent: l.add})
		var cause error
		err := e.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
			store.Cut()
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		for what, err := range map[string]error{"the cause of the function's context": cause, "what Run returns": err} {
			var lost *election.LostError
			if !errors.As(err, &lost) || lost.Err == nil || !strings.Contains(err.Error(), "did not answer") {
				t.Errorf("%s does not say that the store was silent: %v", what, err)
			}
		}
		if l.count(election.EventRenewFailed) == 0 {
			t.Errorf("no renewal is said to have failed: %v", l.kinds())
		}
	})
}

// TestResignOfAnOldLeadershipEndsNoOther.
func TestResignOfAnOldLeadershipEndsNoOther(t *testing.T) {
	e := elector(t, electiontest.NewStore(nil), election.Options{})
	ctx, cancel := context.WithCancel(awaittest.Within(t))
	var first election.Leadership
	_ = e.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		if first == (election.Leadership{}) {
			first = lead
			return nil
		}
		first.Resign()
		lead.Resign() // what was asked first is done first
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), election.ErrResigned) {
			t.Errorf("ended by %v", context.Cause(ctx))
		}
		cancel()
		return nil
	})
	// Alone, the old one ends nothing: the leadership is still there for Resign.
	ctx, cancel = context.WithCancel(awaittest.Within(t))
	defer cancel()
	_ = e.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		first.Resign()
		cancel()
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), election.ErrResigned) {
			t.Errorf("Resign of the leadership with token %d ended the one with %d", first.Token(), lead.Token())
		}
		return nil
	})
}

// TestContextOfRunIsTheCauseWhileAnAttemptIsAbandoned: an unhealthy candidate
// that never led returns why it was stopped, not nil.
func TestContextOfRunIsTheCauseWhileAnAttemptIsAbandoned(t *testing.T) {
	d := newDeaf(clock.System())
	e, sick, checked := mayBeSick(t, d, clock.System())
	ctx, cancel := context.WithCancel(awaittest.Within(t))
	ran := make(chan error, 1)
	go func() {
		ran <- e.Run(ctx, func(context.Context, election.Leadership) error { return nil })
	}()
	<-d.asked
	sick.Store(true)
	<-checked
	<-checked // the first is known by now
	cancel()
	close(d.answer)
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}
