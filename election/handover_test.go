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

// choosy is a store on which a test decides the result of a nomination.
type choosy struct {
	*electiontest.Store
	asked   chan string
	outcome chan error
}

func (c choosy) Nominate(ctx context.Context, _ election.Grant, id string) error {
	c.asked <- id
	select {
	case err := <-c.outcome:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func newChoosy() choosy {
	return choosy{electiontest.NewStore(nil), make(chan string, 10), make(chan error)}
}

// leading runs an elector until it leads, and returns how its run ends.
func leading(t *testing.T, e *election.Elector) <-chan error {
	t.Helper()
	led, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- e.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
			close(led)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	<-led
	return ended
}

// TestWhoAsksForAnotherComesNext: a failed transfer does not swallow another one that was
// requested meanwhile.
func TestWhoAsksForAnotherComesNext(t *testing.T) {
	store := newChoosy()
	e := elector(t, store, election.Options{Once: true, ID: "a"})
	ended := leading(t, e)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- e.TransferTo(awaittest.Within(t), "b") }()
	if id := <-store.asked; id != "b" {
		t.Fatalf("%q is nominated", id)
	}
	go func() { second <- e.TransferTo(awaittest.Within(t), "c") }()
	store.outcome <- election.ErrNoCandidate
	if err := <-first; !errors.Is(err, election.ErrNoCandidate) {
		t.Errorf("the hand-over to nobody returned %v", err)
	}
	if id := <-store.asked; id != "c" {
		t.Fatalf("%q is nominated next", id)
	}
	store.outcome <- nil
	if err := <-second; err != nil {
		t.Errorf("the hand-over to c returned %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// TestWhoAsksForTheSameOneMeanwhileIsNotAnsweredByAnEarlierTry: the candidate may have
// become ready since that try began.
func TestWhoAsksForTheSameOneMeanwhileIsNotAnsweredByAnEarlierTry(t *testing.T) {
	synctest.Test(t, askForTheSameOne)
}

func askForTheSameOne(t *testing.T) {
	store := newChoosy()
	e := elector(t, store, election.Options{Once: true, ID: "a"})
	ended := leading(t, e)
	ask := func() <-chan error {
		answer := make(chan error, 1)
		go func() { answer <- e.TransferTo(awaittest.Within(t), "b") }()
		return answer
	}
	first := ask()
	<-store.asked
	again := []<-chan error{ask(), ask()}
	synctest.Wait()
	store.outcome <- election.ErrNoCandidate
	if err := <-first; !errors.Is(err, election.ErrNoCandidate) {
		t.Errorf("the first hand-over returned %v", err)
	}
	<-store.asked // one try for both
	store.outcome <- nil
	for _, answer := range again {
		if err := <-answer; err != nil {
			t.Errorf("a later hand-over returned %v", err)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// TestHandOverThatCannotBe: each way says why.
func TestHandOverThatCannotBe(t *testing.T) {
	store := newChoosy()
	e := elector(t, store, election.Options{Once: true, ID: "a"})
	if err := e.TransferTo(awaittest.Within(t), "b"); !errors.Is(err, election.ErrNotLeader) {
		t.Errorf("before it leads: %v", err)
	}
	ended := leading(t, e)
	if err := e.TransferTo(awaittest.Within(t), "a"); err == nil || !strings.Contains(err.Error(), "the leader itself") {
		t.Errorf("to itself: %v", err)
	}
	lost := make(chan error, 1)
	go func() { lost <- e.TransferTo(awaittest.Within(t), "b") }()
	<-store.asked
	if err := e.Resign(awaittest.Within(t)); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; !errors.Is(err, election.ErrResigned) || !errors.Is(err, election.ErrNotLeader) {
		t.Errorf("after the leadership has ended meanwhile: %v", err)
	}
	<-ended
	plain := elector(t, struct{ election.Backend }{store}, election.Options{Once: true, ID: "a"})
	if err := plain.TransferTo(awaittest.Within(t), "b"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("on a backend that cannot: %v", err)
	}
}

// hasty is a store on which an operator requests something before Acquire has returned;
// nothing reports it a second time.
type hasty struct{ *electiontest.Store }

func (h hasty) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	grant, err := h.Store.Acquire(ctx, claim)
	grant.Request = &election.Request{Token: grant.Token, By: "me"}
	return grant, err
}

func TestRequestThatCameBeforeAcquireReturnedIsHonoured(t *testing.T) {
	// No renewal comes before the test has given up.
	e := elector(t, hasty{electiontest.NewStore(nil)}, election.Options{Once: true, ID: "a", Lease: 10 * time.Minute})
	err := e.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, election.ErrResigned) {
			t.Errorf("the function was told %v", cause)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// proven is a store whose renewals prove nothing new, but report a request.
type proven struct{ *electiontest.Store }

func (proven) Renew(_ context.Context, grant election.Grant) (election.Grant, error) {
	grant.Request = &election.Request{Token: grant.Token, By: "me"}
	return grant, nil
}

func TestRequestOfARenewalThatProvesNoMoreIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		e := elector(t, proven{electiontest.NewStore(c)}, election.Options{Once: true, ID: "a", Lease: 4 * time.Second, Clock: c})
		if err := e.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
			<-ctx.Done()
			return nil
		}); err != nil {
			t.Errorf("Run returned %v, expected the end of a leader that has resigned", err)
		}
	})
}

// outranked is a store with a waiter of a higher priority, and whose nominations take a while to
// end.
type outranked struct {
	*electiontest.Store
	asked    chan string
	running  atomic.Int32
	overlaps atomic.Bool
}

func (o *outranked) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	grant, err := o.Store.Renew(ctx, grant)
	grant.Rival = "b"
	return grant, err
}

func (o *outranked) Nominate(ctx context.Context, _ election.Grant, id string) error {
	if o.running.Add(1) > 1 {
		o.overlaps.Store(true)
	}
	defer o.running.Add(-1)
	o.asked <- id
	if id == "c" {
		return nil
	}
	<-ctx.Done()
	time.Sleep(time.Second) // it restores the queue
	return context.Cause(ctx)
}

// TestNextNominationBeginsWhenTheLastOneHasEnded: otherwise the one that is cancelled would take
// back what the next one has written.
func TestNextNominationBeginsWhenTheLastOneHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		store := &outranked{Store: electiontest.NewStore(c), asked: make(chan string, 10)}
		e := elector(t, store, election.Options{Once: true, ID: "a", Clock: c})
		ended := leading(t, e)
		if id := <-store.asked; id != "b" {
			t.Fatalf("%q is nominated, b has the higher priority", id)
		}
		if err := e.TransferTo(t.Context(), "c"); err != nil || <-store.asked != "c" {
			t.Errorf("the hand-over to c returned %v", err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if store.overlaps.Load() {
			t.Error("two nominations ran at once")
		}
	})
}

// slow is a store that releases a leadership at once but answers late.
type slow struct {
	choosy
	answer chan struct{}
}

func (s slow) Release(ctx context.Context, grant election.Grant) error {
	err := s.choosy.Release(ctx, grant)
	<-s.answer
	return err
}

// TestHandOverOfAnEndingLeadershipIsNotMadeOfTheNext, which begins before the store has
// confirmed the release of the previous one.
func TestHandOverOfAnEndingLeadershipIsNotMadeOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		store := slow{choosy{electiontest.NewStore(c), make(chan string, 10), make(chan error)}, make(chan struct{})}
		e := elector(t, store, election.Options{ID: "a", Lease: time.Second, Clock: c})
		ctx, cancel := context.WithCancel(awaittest.Within(t))
		led, ending, end := make(chan election.Leadership), make(chan struct{}), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
				led <- lead
				<-ctx.Done()
				select {
				case ending <- struct{}{}:
				case <-end: // the second
				}
				<-end
				return nil
			})
		}()
		(<-led).Resign()
		<-ending
		if err := e.TransferTo(ctx, "b"); !errors.Is(err, election.ErrNotLeader) {
			t.Fatalf("the hand-over of an ending leadership: %v", err)
		}
		close(end)
		<-led // again
		go func() { _ = e.TransferTo(ctx, "c") }()
		if id := <-store.asked; id != "c" {
			t.Errorf("%q is nominated, asked for was c", id)
		}
		close(store.answer)
		cancel()
		<-ended
	})
}

// halting is a clock on which a test halts the loop of Run, before the loop waits.
type halting struct {
	clock.Clock
	halted atomic.Bool
	goOn   chan struct{}
}

func (h *halting) Timer(at clock.Instant) clock.Timer {
	if h.halted.Load() {
		<-h.goOn
	}
	return h.Clock.Timer(at)
}

// TestHandOverAskedForAsTheRunEndsIsAnswered: the request is accepted, but arrives after
// the last report that the loop of Run reads.
func TestHandOverAskedForAsTheRunEndsIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &halting{Clock: electiontest.VirtualClock(1), goOn: make(chan struct{})}
		store := slow{choosy{electiontest.NewStore(c), make(chan string), make(chan error)}, make(chan struct{})}
		e := elector(t, store, election.Options{Once: true, ID: "a", Clock: c})
		ended := leading(t, e)
		go func() { _ = e.Resign(t.Context()) }()
		synctest.Wait() // the release is not answered, and nothing but the loop needs a timer
		c.halted.Store(true)
		if err := e.TransferTo(t.Context(), "b"); !errors.Is(err, election.ErrNotLeader) {
			t.Errorf("of a leadership that is released: %v", err)
		}
		close(store.answer)
		synctest.Wait() // the last report is there
		asked := make(chan error, 1)
		go func() { asked <- e.TransferTo(context.Background(), "b") }()
		synctest.Wait()
		close(c.goOn)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		select {
		case err := <-asked:
			if !errors.Is(err, election.ErrNotLeader) {
				t.Errorf("the answer is %v", err)
			}
		default:
			t.Fatal("Run has returned, and TransferTo waits on")
		}
	})
}
