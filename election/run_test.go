package election_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// log keeps the kinds of events.
type log struct {
	mu     sync.Mutex
	events []election.Event
}

func (l *log) add(e election.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *log) count(kind election.EventKind) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (l *log) kinds() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var kinds []string
	for _, e := range l.events {
		kinds = append(kinds, e.Kind.String())
	}
	return kinds
}

func elector(t *testing.T, b election.Backend, o election.Options) *election.Elector {
	t.Helper()
	if o.Lease == 0 {
		o.Lease = 10 * time.Second
	}
	o.Retry, o.RetryMax = 5*time.Millisecond, 20*time.Millisecond
	e, err := election.New(b, "jobs", o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestFunctionsErrorComesOutOfRunAfterTheRelease(t *testing.T) {
	store, l := electiontest.NewStore(nil), &log{}
	own := errors.New("my own")
	e := elector(t, store, election.Options{ID: "a", OnEvent: l.add})
	err := e.Run(awaittest.Within(t), func(context.Context, election.Leadership) error { return own })
	if !errors.Is(err, own) {
		t.Fatalf("Run returned %v", err)
	}
	want := []string{"campaigning", "elected", "ending", "lost"}
	if !slices.Equal(l.kinds(), want) {
		t.Errorf("events %v, expected %v", l.kinds(), want)
	}
	for view := range e.Observe(awaittest.Within(t)) {
		if view.Leader != "" {
			t.Errorf("still led by %s", view.Leader)
		}
		break
	}
}

func TestStoppingWaitsForTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		ctx, cancel := context.WithCancel(awaittest.Within(t))
		e := elector(t, electiontest.NewStore(c), election.Options{Once: true, Clock: c})
		returned := false
		err := e.Run(ctx, func(ctx context.Context, _ election.Leadership) error {
			cancel()
			<-ctx.Done()
			time.Sleep(time.Second)
			returned = true
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || !returned {
			t.Errorf("Run returned %v, the function had returned: %v", err, returned)
		}
	})
}

func TestResignWaitsUntilTheElectionIsReleased(t *testing.T) {
	store := electiontest.NewStore(nil)
	e := elector(t, store, election.Options{Once: true})
	if err := e.Resign(awaittest.Within(t)); !errors.Is(err, election.ErrNotLeader) {
		t.Errorf("without a leadership: %v", err)
	}
	leads, ran := make(chan struct{}), make(chan error)
	go func() {
		ran <- e.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
			close(leads)
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, election.ErrResigned) {
				t.Errorf("the cause is %v", cause)
			}
			return ctx.Err()
		})
	}()
	<-leads
	if err := e.Resign(awaittest.Within(t)); err != nil {
		t.Error(err)
	}
	for view := range e.Observe(awaittest.Within(t)) {
		if view.Leader != "" {
			t.Errorf("still led by %s", view.Leader)
		}
		break
	}
	if err := <-ran; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestOneElectorRunsOnce(t *testing.T) {
	e := elector(t, electiontest.NewStore(nil), election.Options{Once: true})
	err := e.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
		return e.Run(ctx, func(context.Context, election.Leadership) error { return nil })
	})
	if !errors.Is(err, election.ErrRunning) {
		t.Errorf("the second Run returned %v", err)
	}
}

func TestRunThatIsRefusedLeavesNoGoroutine(t *testing.T) {
	const refused = 100
	e := elector(t, electiontest.NewStore(nil), election.Options{Once: true, OnEvent: func(election.Event) {}})
	err := e.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
		before := runtime.NumGoroutine()
		for range refused {
			if err := e.Run(ctx, nil); !errors.Is(err, election.ErrRunning) {
				return err
			}
		}
		awaittest.Until(t, "their goroutines have ended", func() bool { return runtime.NumGoroutine()-before <= refused/2 })
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOneLostForEveryElected(t *testing.T) {
	store, l := electiontest.NewStore(nil), &log{}
	ctx, cancel := context.WithCancel(awaittest.Within(t))
	e := elector(t, store, election.Options{OnEvent: l.add, Lease: 80 * time.Millisecond})
	turns := 0
	_ = e.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		turns++
		switch turns % 4 {
		case 0:
			store.Take("jobs")
			<-ctx.Done()
		case 1:
			lead.Resign()
			<-ctx.Done()
		case 2:
			store.Take("jobs") // and return before anybody notices
		}
		if turns == 40 {
			cancel()
		}
		return nil
	})
	elected, lost := l.count(election.EventElected), l.count(election.EventLost)
	if elected != turns || lost != turns || l.count(election.EventEnding) != turns {
		t.Errorf("%d turns: %d elected, %d ending, %d lost", turns, elected, l.count(election.EventEnding), lost)
	}
}

// TestFirstCallAfterAFreezeTellsTheTruth: the clock has moved on, but no goroutine of the Elector
// has run yet (scenario-E05). The first call may be to the context or to the leadership.
func TestFirstCallAfterAFreezeTellsTheTruth(t *testing.T) {
	for name, first := range map[string]func(context.Context, election.Leadership) error{
		"context":    func(ctx context.Context, _ election.Leadership) error { return ctx.Err() },
		"leadership": func(_ context.Context, lead election.Leadership) error { return lead.Err() },
	} {
		t.Run(name, func(t *testing.T) { afterAFreeze(t, first) })
	}
}

func afterAFreeze(t *testing.T, first func(context.Context, election.Leadership) error) {
	manual := clock.NewManual(clock.Instant(time.Hour))
	store := electiontest.NewFaulty(electiontest.NewStore(manual))
	e := elector(t, store, election.Options{Once: true, Clock: frozen{manual}, Lease: 10 * time.Second})
	err := e.Run(awaittest.Within(t), func(ctx context.Context, lead election.Leadership) error {
		if lead.Err() != nil || ctx.Err() != nil || lead.Remaining() <= 0 {
			t.Errorf("lost at once: %v, %v", lead.Err(), lead.Remaining())
		}
		manual.Advance(9 * time.Second)
		if first(ctx, lead) == nil || ctx.Err() == nil || !errors.Is(lead.Err(), election.ErrLost) {
			t.Errorf("after the freeze: %v, %v", lead.Err(), ctx.Err())
		}
		select {
		case <-lead.Done():
		default:
			t.Error("Done is open though Err is not nil")
		}
		return nil
	})
	if err == nil {
		return // the elector saw the function return before the timers fired: no loss to report
	}
	if !errors.Is(err, election.ErrLost) {
		t.Errorf("Run returned %v", err)
	}
}

// frozen is a clock whose timers never fire.
type frozen struct{ *clock.Manual }

func (frozen) Timer(clock.Instant) clock.Timer { return never{} }

type never struct{}

func (never) C() <-chan struct{} { return nil }
func (never) Stop()              {}

func TestStuckFunctionIsReportedOnce(t *testing.T) {
	store, l := electiontest.NewStore(nil), &log{}
	stuck := make(chan election.Token, 10)
	e := elector(t, store, election.Options{Once: true, OnEvent: l.add, Lease: 100 * time.Millisecond,
		OnStuck: func(lead election.Leadership) { stuck <- lead.Token() }})
	err := e.Run(awaittest.Within(t), func(context.Context, election.Leadership) error {
		store.Take("jobs")
		<-stuck
		return nil
	})
	if !errors.Is(err, election.ErrLost) || l.count(election.EventStuck) != 1 || len(stuck) != 0 {
		t.Errorf("Run returned %v; stuck told %d times and %d", err, l.count(election.EventStuck), len(stuck)+1)
	}
}

func TestPanicComesOutOfRunAfterTheRelease(t *testing.T) {
	store := electiontest.NewStore(nil)
	e := elector(t, store, election.Options{Once: true})
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "boom") || !strings.Contains(text, "run_test.go") {
			t.Errorf("recovered %q", text)
		}
		next := elector(t, store, election.Options{Once: true})
		if err := next.Run(awaittest.Within(t), func(context.Context, election.Leadership) error { return nil }); err != nil {
			t.Error(err)
		}
	}()
	_ = e.Run(awaittest.Within(t), func(context.Context, election.Leadership) error { panic("boom") })
	t.Error("Run returned")
}

func TestGoexitOfTheFunctionEndsTheLeadership(t *testing.T) {
	e := elector(t, electiontest.NewStore(nil), election.Options{Once: true})
	err := e.Run(awaittest.Within(t), func(context.Context, election.Leadership) error { runtime.Goexit(); return nil })
	if err == nil || !strings.Contains(err.Error(), "Goexit") {
		t.Errorf("Run returned %v", err)
	}
}

// TestResignWhileTheStoreIsPartitionedDoesNotHang (scenario-E14).
func TestResignWhileTheStoreIsPartitionedDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		store, l := electiontest.NewFaulty(electiontest.NewStore(c)), &log{}
		e := elector(t, store, election.Options{Once: true, Lease: 500 * time.Millisecond, Clock: c, OnEvent: l.add})
		err := e.Run(awaittest.Within(t), func(ctx context.Context, lead election.Leadership) error {
			store.Cut()
			lead.Resign()
			<-ctx.Done()
			return nil
		})
		if err != nil || l.count(election.EventLost) != 1 {
			t.Errorf("Run returned %v, lost told %d times", err, l.count(election.EventLost))
		}
	})
}

type refusing struct{ *electiontest.Store }

var errBroken = errors.New("state file is damaged")

func (refusing) Acquire(context.Context, election.Claim) (election.Grant, error) {
	return election.Grant{}, election.Permanent(errBroken)
}

func TestPermanentFailureEndsTheRun(t *testing.T) {
	e := elector(t, refusing{electiontest.NewStore(nil)}, election.Options{})
	err := e.Run(awaittest.Within(t), func(context.Context, election.Leadership) error { return nil })
	if !errors.Is(err, errBroken) || !errors.Is(err, election.ErrPermanent) {
		t.Errorf("Run returned %v", err)
	}
}

func TestWrongNamesAndOptionsAreRefused(t *testing.T) {
	store := electiontest.NewStore(nil)
	for _, name := range []string{"", "/", "/a", "a/", "a//b", ".", "a/..", "a\x00b", "a\nb", "a\xffb",
		strings.Repeat("x", election.NameBytesMax+1)} {
		if _, err := election.New(store, name, election.Options{Once: true}); !errors.Is(err, election.ErrInvalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, o := range []election.Options{
		{ID: "a\nb"}, {ID: strings.Repeat("x", 201)}, {Lease: time.Millisecond}, {Lease: -1},
		{Lease: 48 * time.Hour}, {Grace: 6 * time.Second}, {ClockDriftPercent: 26}, {ClockDriftPercent: -1}, {Retry: -1},
		{Retry: time.Second, RetryMax: time.Millisecond}, {HealthEvery: 1}, {HealthEvery: -1}, {HealthFailures: -1},
	} {
		if _, err := election.New(store, "a", o); !errors.Is(err, election.ErrInvalid) {
			t.Errorf("options %+v: %v", o, err)
		}
	}
	if _, err := election.New(nil, "a", election.Options{}); !errors.Is(err, election.ErrInvalid) {
		t.Errorf("no backend: %v", err)
	}
}

// overlapping is a store that may elect two leaders.
type overlapping struct{ *electiontest.Store }

func (o overlapping) Traits() election.Traits {
	traits := o.Store.Traits()
	traits.Exclusive = false
	return traits
}

func TestBackendThatMayElectTwoIsTakenOnlyByName(t *testing.T) {
	store := overlapping{electiontest.NewStore(nil)}
	if _, err := election.New(store, "a", election.Options{}); !errors.Is(err, election.ErrInvalid) {
		t.Errorf("without MayOverlap: %v", err)
	}
	if _, err := election.New(store, "a", election.Options{MayOverlap: true}); err != nil {
		t.Errorf("with MayOverlap: %v", err)
	}
}

func TestZeroElectorSaysThatItWasNotMade(t *testing.T) {
	var e election.Elector
	lead := func(context.Context, election.Leadership) error { return nil }
	_, errWait := e.WaitLeader(t.Context())
	for name, err := range map[string]error{"Run": e.Run(t.Context(), lead), "Try": e.Try(t.Context(), lead),
		"TransferTo": e.TransferTo(t.Context(), "b"), "WaitLeader": errWait} {
		if !errors.Is(err, election.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := e.Resign(t.Context()); !errors.Is(err, election.ErrNotLeader) {
		t.Errorf("Resign: %v", err)
	}
	if e.IsLeader() || e.Name() != "" || e.ID() != "" {
		t.Error("it is something")
	}
}
