package election_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

func unexpected(t *testing.T) func(context.Context, election.Leadership) error {
	return func(context.Context, election.Leadership) error {
		t.Error("it leads")
		return nil
	}
}

func TestTryLeadsWhenNobodyDoes(t *testing.T) {
	e := elector(t, electiontest.NewStore(nil), election.Options{ID: "a"})
	tokens := []election.Token{}
	for range 2 { // an earlier leadership of its own is in nobody's way
		err := e.Try(awaittest.Within(t), func(_ context.Context, lead election.Leadership) error {
			tokens = append(tokens, lead.Token())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(tokens) != 2 || tokens[0] != 1 || tokens[1] != 2 {
		t.Errorf("it led with tokens %v", tokens)
	}
}

func TestTrySaysWhoLeads(t *testing.T) {
	store := electiontest.NewStore(nil)
	other := elector(t, store, election.Options{Once: true, ID: "b"})
	ended := leading(t, other)
	held := (*election.HeldError)(nil)
	err := elector(t, store, election.Options{ID: "a"}).Try(awaittest.Within(t), unexpected(t))
	if !errors.Is(err, election.ErrHeld) || !errors.As(err, &held) || held.View.Leader != "b" || held.View.Token != 1 {
		t.Errorf("Try: %v", err)
	}
	if err := other.Resign(awaittest.Within(t)); err != nil {
		t.Fatal(err)
	}
	<-ended
}

// outrun elects another candidate before it lets this one wait.
type outrun struct{ *electiontest.Store }

func (o outrun) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	faster := claim
	faster.ID, faster.Nonce = "faster", claim.Nonce+"f"
	if _, err := o.Store.Acquire(ctx, faster); err != nil {
		return election.Grant{}, err
	}
	return o.Store.Acquire(ctx, claim)
}

func TestTryDoesNotWaitForAFasterCandidate(t *testing.T) {
	store := outrun{electiontest.NewStore(nil)}
	e := elector(t, store, election.Options{ID: "a"})
	err := e.Try(awaittest.Within(t), unexpected(t))
	if held := (*election.HeldError)(nil); !errors.As(err, &held) || held.View.Leader != "faster" {
		t.Errorf("Try: %v", err)
	}
	if view, err := e.WaitLeader(awaittest.Within(t)); err != nil || len(view.Waiters) != 0 {
		t.Errorf("%v wait after it, %v", view.WaiterIDs(), err)
	}
}

// slowAnswer shows a grant to observers before Acquire returns it.
type slowAnswer struct {
	*electiontest.Store
	seen chan struct{}
	once *sync.Once
}

func (s slowAnswer) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	grant, err := s.Store.Acquire(ctx, claim)
	select {
	case <-s.seen:
	case <-ctx.Done():
	}
	return grant, err
}

func (s slowAnswer) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		for view, err := range s.Store.Observe(ctx, name) {
			if !yield(view, err) {
				return
			}
			if view.Leader != "" {
				s.once.Do(func() { close(s.seen) })
			}
		}
	}
}

func TestTryIsNotMisledByItsOwnGrant(t *testing.T) {
	store := slowAnswer{electiontest.NewStore(nil), make(chan struct{}), &sync.Once{}}
	led := false
	err := elector(t, store, election.Options{ID: "a"}).Try(awaittest.Within(t), func(context.Context, election.Leadership) error {
		led = true
		return nil
	})
	if err != nil || !led {
		t.Errorf("Try: %v, led: %v", err, led)
	}
}

// failing is a store that cannot be asked.
type failing struct {
	*electiontest.Store
	observe, acquire error
}

func (f failing) Acquire(context.Context, election.Claim) (election.Grant, error) {
	return election.Grant{}, f.acquire
}

func (f failing) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		switch {
		case f.observe == nil:
			f.Store.Observe(ctx, name)(yield)
		case yield(election.View{}, f.observe):
			<-ctx.Done()
		}
	}
}

func TestTryEndsWithTheErrorOfTheStore(t *testing.T) {
	gone := errors.New("the store is gone")
	for name, store := range map[string]failing{
		"observe":  {electiontest.NewStore(nil), gone, nil},
		"acquire":  {electiontest.NewStore(nil), nil, gone},
		"for ever": {electiontest.NewStore(nil), nil, election.Permanent(gone)},
	} {
		l := &log{}
		err := elector(t, store, election.Options{ID: "a", OnEvent: l.add}).Try(awaittest.Within(t), unexpected(t))
		if !errors.Is(err, gone) || errors.Is(err, election.ErrHeld) {
			t.Errorf("%s: %v", name, err)
		}
		if n := l.count(election.EventCampaigning); n > 1 {
			t.Errorf("%s: %d attempts", name, n)
		}
	}
}

func TestTryOfAnUnhealthyCandidateEnds(t *testing.T) {
	sick := errors.New("sick")
	e := elector(t, electiontest.NewStore(nil), election.Options{ID: "a", Health: func(context.Context) error { return sick }})
	if err := e.Try(awaittest.Within(t), unexpected(t)); !errors.Is(err, sick) {
		t.Errorf("Try: %v", err)
	}
}

func TestWaitersSeeALeadershipBeginAndEnd(t *testing.T) {
	store := electiontest.NewStore(nil)
	e := elector(t, store, election.Options{Once: true, ID: "a"})
	watcher := elector(t, store, election.Options{ID: "watcher"})
	views := make(chan string, 2)
	note := func(view election.View, err error) { views <- fmt.Sprint(view.Leader, view.Token, err) }
	go func() { note(watcher.WaitLeader(awaittest.Within(t))) }()
	ended := leading(t, e)
	if seen := <-views; seen != "a1 <nil>" {
		t.Errorf("the leader: %s", seen)
	}
	if view, err := watcher.WaitEnd(awaittest.Within(t), 0); err != nil || view.Leader != "a" {
		t.Errorf("the end of what was before: %v, %v", view, err)
	}
	go func() { note(watcher.WaitEnd(awaittest.Within(t), 1)) }()
	if err := e.Resign(awaittest.Within(t)); err != nil {
		t.Fatal(err)
	}
	<-ended
	if seen := <-views; seen != "1 <nil>" {
		t.Errorf("the end: %s", seen)
	}
}

// told is a backend whose observer is told these views.
type told struct {
	election.Backend
	views []election.View
}

func (s told) Observe(context.Context, string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		for _, view := range s.views {
			if !yield(view, nil) {
				return
			}
		}
	}
}

// TestEndOfALeadershipIsNotSeenBeforeItsBeginning: an observer may lag, and a client that
// got the token from the leader itself knows more than the observer.
func TestEndOfALeadershipIsNotSeenBeforeItsBeginning(t *testing.T) {
	before, leads := election.View{Token: 6}, election.View{Leader: "a", Token: 7}
	for name, one := range map[string]struct {
		views []election.View
		end   int // which of them shows it
	}{
		"seen from before":             {[]election.View{before, leads, {Token: 7}}, 2},
		"without a history":            {[]election.View{{}, leads, {}}, 2},
		"over already":                 {[]election.View{{Token: 7}}, 0},
		"over, and a later one is too": {[]election.View{{Token: 9}}, 0},
		"succeeded":                    {[]election.View{before, {Leader: "b", Token: 8}}, 1},
		"an older one leads":           {[]election.View{{Leader: "b", Token: 5}, before, {Token: 7}}, 2},
	} {
		for i := range one.views {
			one.views[i].Waiters = []election.Waiter{{ID: fmt.Sprint(i)}}
		}
		e := elector(t, told{electiontest.NewStore(nil), one.views}, election.Options{ID: "watcher"})
		view, err := e.WaitEnd(awaittest.Within(t), 7)
		if want := fmt.Sprint(one.end); err != nil || view.Waiters[0].ID != want {
			t.Errorf("%s: view %v, %v; view %s shows the end", name, view, err, want)
		}
	}
}

func TestWaitSaysWhatTheStoreDid(t *testing.T) {
	gone := errors.New("the store is gone")
	e := elector(t, failing{electiontest.NewStore(nil), gone, nil}, election.Options{ID: "a"})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := e.WaitLeader(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, gone) {
		t.Errorf("WaitLeader: %v", err)
	}
}
