package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/controller"
	"github.com/conclave-project/conclave/election/electiontest"
)

// world is a store and what the managers on it did, in a synctest bubble.
type world struct {
	t     *testing.T
	store *electiontest.Store

	mu      sync.Mutex
	leads   map[string]bool
	leaders []string
	leases  []election.Leadership
	causes  []error
	stuck   []string
	all     bool          // all managers lead, because there is no election
	late    time.Duration // how long a leader's runnable takes to end
}

func newWorld(t *testing.T) *world {
	return &world{t: t, store: electiontest.NewStore(electiontest.VirtualClock(1)), leads: map[string]bool{}}
}

// one is a process with a manager.
type one struct {
	mgr     manager.Manager
	stop    context.CancelFunc
	done    chan struct{}
	err     error
	waiting chan bool // whether the runnable without election saw a leadership when it began
}

// managerOptions returns the options of a manager with an election.
func managerOptions() manager.Options {
	return manager.Options{LeaderElection: true, LeaderElectionID: "jobs", LeaderElectionReleaseOnCancel: true,
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Logger: logr.Discard()}
}

// others is a runnable that needs no election.
type others struct{ start func(context.Context) error }

func (o others) Start(ctx context.Context) error { return o.start(ctx) }
func (others) NeedLeaderElection() bool          { return false }

func (w *world) start(backend election.Backend, id string, options manager.Options) *one {
	w.t.Helper()
	o := &one{done: make(chan struct{}), waiting: make(chan bool, 1)}
	var err error
	o.mgr, err = controller.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, options, controller.Election{Backend: backend,
		Options: election.Options{ID: id, Clock: electiontest.VirtualClock(1),
			OnStuck: func(election.Leadership) { w.note(&w.stuck, id) }}})
	if err != nil {
		w.t.Fatal(err)
	}
	leader := manager.RunnableFunc(func(ctx context.Context) error { return w.lead(ctx, id) })
	beside := others{func(ctx context.Context) error {
		_, leads := controller.LeadershipFrom(ctx)
		o.waiting <- leads
		<-ctx.Done()
		return nil
	}}
	if err := errors.Join(o.mgr.Add(leader), o.mgr.Add(beside)); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	go func() {
		defer close(o.done)
		o.err = o.mgr.Start(ctx)
	}()
	return o
}

func (w *world) note(list *[]string, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, id)
}

func (w *world) lead(ctx context.Context, id string) error {
	lead, _ := controller.LeadershipFrom(ctx)
	w.mu.Lock()
	w.leads[id] = true
	if len(w.leads) > 1 && len(w.stuck) == 0 && !w.all {
		w.t.Errorf("%v lead at a time", w.leads)
	}
	w.leaders, w.leases = append(w.leaders, id), append(w.leases, lead)
	w.mu.Unlock()
	<-ctx.Done()
	if w.late > 0 {
		time.Sleep(w.late)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.causes = append(w.causes, context.Cause(ctx))
	delete(w.leads, id)
	return nil
}

// leader waits until the n-th leadership has begun, and returns how long that took.
func (w *world) leader(n int, want string) time.Duration {
	w.t.Helper()
	began := time.Now()
	for {
		synctest.Wait()
		w.mu.Lock()
		got := len(w.leaders)
		if got >= n && w.leaders[n-1] != want {
			w.t.Fatalf("leaders %v, want %s as number %d", w.leaders, want, n)
		}
		w.mu.Unlock()
		if got >= n {
			return time.Since(began)
		}
		if time.Since(began) > time.Hour {
			w.t.Fatalf("%s does not lead within an hour", want)
		}
		time.Sleep(10 * time.Millisecond) // on the bubble's clock
	}
}

func (w *world) end(all ...*one) {
	for _, o := range all {
		o.stop()
		<-o.done
	}
	time.Sleep(time.Hour) // whatever was left to expire has expired
	synctest.Wait()
}

func TestSuccessorLeadsAtOnceWhenAManagerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.late = 3 * time.Second
		a := w.start(w.store, "a", managerOptions())
		w.leader(1, "a")
		b := w.start(w.store, "b", managerOptions())
		if <-b.waiting {
			t.Error("a manager that waits has a leadership")
		}
		time.Sleep(time.Minute)
		a.stop()
		if took := w.leader(2, "b"); took < w.late || took > w.late+time.Second {
			t.Errorf("b led %v after a was told to stop, whose runnable took %v", took, w.late)
		}
		<-a.done
		if a.err != nil {
			t.Errorf("a manager that was stopped returns %v", a.err)
		}
		first, second := w.leases[0], w.leases[1]
		if second.Token() <= first.Token() || first.Err() == nil || second.Err() != nil {
			t.Errorf("tokens %d and %d; %v, %v", first.Token(), second.Token(), first.Err(), second.Err())
		}
		w.end(a, b)
	})
}

func TestPartitionedManagersRunnablesEndBeforeAnotherLeads(t *testing.T) {
	for cut := range 10 { // at any moment between two renewals
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.late = 2 * time.Second // within the grace
			link := electiontest.NewFaulty(w.store)
			a := w.start(link, "a", managerOptions())
			w.leader(1, "a")
			b := w.start(w.store, "b", managerOptions())
			time.Sleep(time.Minute + time.Duration(cut)*400*time.Millisecond)
			link.Cut()
			w.leader(2, "b") // lead fails the test if a still leads
			link.Heal()
			<-a.done
			if !errors.Is(a.err, election.ErrLost) || !errors.Is(w.causes[0], election.ErrLost) || len(w.stuck) > 0 {
				t.Errorf("Start returned %v, the context ended with %v, stuck %v", a.err, w.causes[0], w.stuck)
			}
			w.end(a, b)
		})
	}
}

func TestManagerWhoseRunnableDoesNotEndIsStuckBeforeAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.late = time.Hour
		link := electiontest.NewFaulty(w.store)
		a := w.start(link, "a", managerOptions())
		w.leader(1, "a")
		b := w.start(w.store, "b", managerOptions())
		time.Sleep(time.Minute)
		link.Cut()
		w.leader(2, "b") // lead fails the test if a leads and is not stuck
		if !slices.Equal(w.stuck, []string{"a"}) {
			t.Errorf("stuck: %v", w.stuck)
		}
		link.Heal()
		w.end(a, b)
	})
}

func TestNothingIsReleasedWhileARunnableStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.late = time.Hour
		options := managerOptions()
		limit := 5 * time.Second
		options.GracefulShutdownTimeout = &limit
		a := w.start(w.store, "a", options)
		w.leader(1, "a")
		b := w.start(w.store, "b", options)
		time.Sleep(time.Minute)
		a.stop()
		<-a.done
		if a.err == nil {
			t.Error("Start returned no error though a runnable still runs")
		}
		if took := w.leader(2, "b"); took < controller.LeaseDefault || !slices.Equal(w.stuck, []string{"a"}) {
			t.Errorf("b led %v later, stuck: %v", took, w.stuck)
		}
		w.end(a, b)
	})
}

// TestRunnableThatFailsWithADeadlineIsNotStuck: one of its own requests took too long, and
// all runnables end at once.
func TestRunnableThatFailsWithADeadlineIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start(w.store, "a", managerOptions())
		fails, own := make(chan struct{}), fmt.Errorf("list pods: %w", context.DeadlineExceeded)
		if err := a.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			select {
			case <-fails:
				return own
			case <-ctx.Done():
				return nil
			}
		})); err != nil {
			t.Fatal(err)
		}
		w.leader(1, "a")
		b := w.start(w.store, "b", managerOptions())
		time.Sleep(time.Minute)
		close(fails)
		<-a.done
		if took := w.leader(2, "b"); !errors.Is(a.err, own) || took > time.Second || len(w.stuck) > 0 {
			t.Errorf("Start returned %v; b led %v later, stuck: %v", a.err, took, w.stuck)
		}
		w.end(a, b)
	})
}

func TestLeadershipRunsOutWithoutReleaseOnCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		options := managerOptions()
		options.LeaderElectionReleaseOnCancel = false
		a := w.start(w.store, "a", options)
		w.leader(1, "a")
		b := w.start(w.store, "b", options)
		time.Sleep(time.Minute)
		a.stop()
		<-a.done
		if took := w.leader(2, "b"); took < controller.LeaseDefault*2/3 || len(w.stuck) > 0 {
			t.Errorf("b led %v after a had stopped, stuck: %v", took, w.stuck)
		}
		w.end(a, b)
	})
}

func TestManagerThatResignsEndsWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start(w.store, "a", managerOptions())
		w.leader(1, "a")
		b := w.start(w.store, "b", managerOptions())
		time.Sleep(time.Minute)
		w.leases[0].Resign()
		if took := w.leader(2, "b"); took > time.Second {
			t.Errorf("b led %v after a had resigned", took)
		}
		<-a.done
		if !errors.Is(a.err, election.ErrResigned) {
			t.Errorf("Start returned %v", a.err)
		}
		w.end(a, b)
	})
}

func TestManagerThatStopsWaitingLeavesTheElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start(w.store, "a", managerOptions())
		w.leader(1, "a")
		b := w.start(w.store, "b", managerOptions())
		time.Sleep(time.Minute)
		w.end(b, a)
		if w.store.Len() != 0 || len(w.leaders) != 1 {
			t.Errorf("%d candidates left, leaders %v", w.store.Len(), w.leaders)
		}
	})
}

func TestRunnablesHaveTheUsersOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		w := newWorld(t)
		options := managerOptions()
		options.BaseContext = func() context.Context { return context.WithValue(context.Background(), key{}, "own") }
		a := w.start(w.store, "a", options)
		seen := make(chan context.Context, 1)
		if err := a.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { seen <- ctx; <-ctx.Done(); return nil })); err != nil {
			t.Fatal(err)
		}
		ctx := <-seen
		lead, ok := controller.LeadershipFrom(ctx)
		if ctx.Value(key{}) != "own" || !ok || lead.Token() == 0 {
			t.Errorf("value %v, leadership %v with token %d", ctx.Value(key{}), ok, lead.Token())
		}
		w.store.Take("jobs")
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), election.ErrLost) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		w.end(a)
	})
}

func TestWithoutElectionTheManagerIsAsEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.all = true
		options := managerOptions()
		options.LeaderElection = false
		a, b := w.start(w.store, "a", options), w.start(w.store, "b", options)
		<-a.mgr.Elected()
		<-b.mgr.Elected()
		w.end(a, b)
		if w.store.Len() != 0 || a.err != nil {
			t.Errorf("%d candidates, error %v", w.store.Len(), a.err)
		}
	})
}

func TestOptionsThatCannotBeHonouredAreRefused(t *testing.T) {
	second, none := time.Second, time.Duration(0)
	for want, change := range map[string]func(*manager.Options, *controller.Election){
		"ResourceLockInterface": func(o *manager.Options, _ *controller.Election) {
			o.LeaderElectionResourceLockInterface = &resourcelock.LeaseLock{}
		},
		"RetryPeriod": func(o *manager.Options, _ *controller.Election) { o.RetryPeriod = &second },
		"endpoints":   func(o *manager.Options, _ *controller.Election) { o.LeaderElectionResourceLock = "endpoints" },
		"LeaseDuration 1s": func(o *manager.Options, e *controller.Election) {
			o.LeaseDuration, e.Options.Lease = &second, time.Minute
		},
		"RenewDeadline 1s and":    func(o *manager.Options, e *controller.Election) { o.RenewDeadline, e.Options.Grace = &second, second },
		"RenewDeadline 1s: must":  func(o *manager.Options, _ *controller.Election) { o.RenewDeadline = &second },
		"GracefulShutdownTimeout": func(o *manager.Options, _ *controller.Election) { o.GracefulShutdownTimeout = &none },
		"LeaderElectionNamespace": func(o *manager.Options, _ *controller.Election) { o.LeaderElectionNamespace = "kube-system" },
		"grace 20s":               func(_ *manager.Options, e *controller.Election) { e.Options.Grace = 20 * time.Second },
		`name ""`:                 func(o *manager.Options, _ *controller.Election) { o.LeaderElectionID = "" },
	} {
		options, e := managerOptions(), controller.Election{Backend: electiontest.NewStore(nil)}
		change(&options, &e)
		_, err := controller.NewManager(&rest.Config{}, options, e)
		if !errors.Is(err, election.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	_, err := controller.NewManager(&rest.Config{}, managerOptions(), controller.Election{})
	if err == nil || !strings.Contains(err.Error(), "set LeaderElectionNamespace") {
		t.Errorf("outside of a pod: %v", err)
	}
}
