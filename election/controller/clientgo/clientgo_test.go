package clientgo_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/controller/clientgo"
	"github.com/conclave-project/conclave/election/electiontest"
)

const (
	lease    = 15 * time.Second
	deadline = 10 * time.Second
	retry    = 2 * time.Second
)

// world is a store and what its candidates did, in a synctest bubble.
type world struct {
	t     *testing.T
	store *electiontest.Store

	mu      sync.Mutex
	leads   map[string]int // for each candidate, the loops whose context has not ended
	leaders []string       // in order
	tokens  []election.Token
	stuck   []string
}

func newWorld(t *testing.T) *world {
	return &world{t: t, store: electiontest.NewStore(electiontest.VirtualClock(1)), leads: map[string]int{}}
}

// one is a program that uses client-go.
type one struct {
	lock *clientgo.Lock
	stop context.CancelFunc
	done chan struct{}
}

// loop returns the configuration of a client-go loop.
func loop(release bool) leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{LeaseDuration: lease, RenewDeadline: deadline, RetryPeriod: retry,
		ReleaseOnCancel: release}
}

// start runs a candidate until it is stopped or its loop ends.
func (w *world) start(backend election.Backend, id string, release bool) *one {
	w.t.Helper()
	config := loop(release)
	o := &one{done: make(chan struct{})}
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) { w.lead(ctx, id, o.lock.Leadership().Token()) },
		OnStoppedLeading: func() {},
	}
	var err error
	o.lock, err = clientgo.NewLock(config, backend, "jobs", election.Options{ID: id, Clock: electiontest.VirtualClock(1),
		OnStuck: func(election.Leadership) { w.note(&w.stuck, id) }})
	if err != nil {
		w.t.Fatal(err)
	}
	config.Lock = o.lock
	w.run(o, config)
	return o
}

func (w *world) run(o *one, config leaderelection.LeaderElectionConfig) {
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	o.stop, o.done = stop, make(chan struct{})
	go func() {
		defer close(o.done)
		elector.Run(ctx)
	}()
}

// lead is the work of a leader. It fails the test if another leader works.
func (w *world) lead(ctx context.Context, id string, token election.Token) {
	w.mu.Lock()
	w.leads[id]++
	if len(w.leads) > 1 {
		w.t.Errorf("%v lead at a time", w.leads)
	}
	w.leaders, w.tokens = append(w.leaders, id), append(w.tokens, token)
	w.mu.Unlock()
	<-ctx.Done()
	w.mu.Lock()
	delete(w.leads, id)
	w.mu.Unlock()
}

// finish marks the work of a leader as done: with ReleaseOnCancel this must happen before
// the loop is stopped, because the loop does not wait for it.
func (w *world) finish(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.leads, id)
}

func (w *world) note(list *[]string, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, id)
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
		time.Sleep(100 * time.Millisecond) // on the bubble's clock
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

func TestSuccessorLeadsAtOnceAfterARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start(w.store, "a", true)
		w.leader(1, "a")
		b := w.start(w.store, "b", true)
		time.Sleep(time.Minute)
		w.finish("a")
		a.stop()
		if took := w.leader(2, "b"); took > time.Second {
			t.Errorf("b led %v after a had stopped", took)
		}
		if w.tokens[1] <= w.tokens[0] || w.tokens[0] == 0 {
			t.Errorf("tokens %v", w.tokens)
		}
		w.end(a, b)
	})
}

func TestLeadershipRunsOutWithoutReleaseOnCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start(w.store, "a", false)
		w.leader(1, "a")
		b := w.start(w.store, "b", false)
		time.Sleep(time.Minute)
		a.stop()
		<-a.done
		if took := w.leader(2, "b"); took < lease*9/10 || took > 3*lease {
			t.Errorf("b led %v after a had stopped", took)
		}
		if len(w.stuck) > 0 {
			t.Errorf("stuck: %v", w.stuck)
		}
		w.end(a, b)
	})
}

func TestLockServesTheNextLoop(t *testing.T) {
	for _, release := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			config := loop(release)
			a := w.start(w.store, "a", release)
			w.leader(1, "a")
			a.stop()
			<-a.done
			config.Lock = a.lock
			config.Callbacks = leaderelection.LeaderCallbacks{OnStoppedLeading: func() {},
				OnStartedLeading: func(ctx context.Context) { w.lead(ctx, "a", a.lock.Leadership().Token()) }}
			w.run(a, config)
			w.leader(2, "a")
			if w.tokens[1] <= w.tokens[0] {
				t.Errorf("tokens %v", w.tokens)
			}
			w.end(a)
		})
	}
}

func TestPartitionedLoopEndsBeforeAnotherLeads(t *testing.T) {
	for cut := range 10 { // at any moment between two renewals
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			link := electiontest.NewFaulty(w.store)
			a := w.start(link, "a", true)
			w.leader(1, "a")
			b := w.start(w.store, "b", true)
			time.Sleep(time.Minute + time.Duration(cut)*700*time.Millisecond)
			link.Cut()
			w.leader(2, "b") // lead fails the test if a still leads
			select {
			case <-a.done:
			default:
				t.Error("a's loop has not ended")
			}
			if len(w.stuck) > 0 {
				t.Errorf("stuck: %v", w.stuck)
			}
			link.Heal()
			w.end(a, b)
		})
	}
}

func TestLoopThatRunsWhenItsLeadershipWasTakenIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start(w.store, "a", true)
		w.leader(1, "a")
		w.store.Take("jobs")
		time.Sleep(retry + time.Millisecond) // after RenewDeadline client-go gives up
		synctest.Wait()
		if len(w.stuck) != 1 {
			t.Errorf("stuck: %v", w.stuck)
		}
		w.end(a)
	})
}

func TestCandidateWhoseLoopHasEndedCampaignsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start(w.store, "a", true)
		w.leader(1, "a")
		b := w.start(w.store, "b", true)
		time.Sleep(time.Minute)
		b.stop()
		<-b.done
		a.stop()
		<-a.done
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.store.Len() != 0 || len(w.leaders) != 1 {
			t.Errorf("%d candidates left, leaders %v", w.store.Len(), w.leaders)
		}
		w.end()
	})
}

func TestOtherLeadersAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start(w.store, "a", true)
		w.leader(1, "a")
		var seen []string
		config := loop(true)
		b := &one{}
		config.Callbacks = leaderelection.LeaderCallbacks{OnStoppedLeading: func() {},
			OnStartedLeading: func(ctx context.Context) { w.lead(ctx, "b", b.lock.Leadership().Token()) },
			OnNewLeader:      func(id string) { w.note(&seen, id) }}
		var err error
		if b.lock, err = clientgo.NewLock(config, w.store, "jobs", election.Options{ID: "b", Clock: electiontest.VirtualClock(1)}); err != nil {
			t.Fatal(err)
		}
		config.Lock = b.lock
		w.run(b, config)
		time.Sleep(time.Minute)
		w.finish("a")
		a.stop()
		if took := w.leader(2, "b"); took > time.Second {
			t.Errorf("b led %v after a had stopped", took)
		}
		synctest.Wait()
		if strings.Join(seen, " ") != "a b" {
			t.Errorf("leaders that b was told of: %v", seen)
		}
		w.end(a, b)
	})
}

func TestConfigsThatCannotHoldAreRefused(t *testing.T) {
	good := loop(true)
	for want, change := range map[string]func(*leaderelection.LeaderElectionConfig, *election.Options){
		"too short":     func(c *leaderelection.LeaderElectionConfig, _ *election.Options) { c.LeaseDuration = 14 * time.Second },
		"Coordinated":   func(c *leaderelection.LeaderElectionConfig, _ *election.Options) { c.Coordinated = true },
		"Options.Lease": func(_ *leaderelection.LeaderElectionConfig, o *election.Options) { o.Lease = time.Minute },
		"Options.Grace": func(_ *leaderelection.LeaderElectionConfig, o *election.Options) { o.Grace = time.Second },
		"clock drift":   func(_ *leaderelection.LeaderElectionConfig, o *election.Options) { o.ClockDriftPercent = -1 },
	} {
		config, options := good, election.Options{}
		change(&config, &options)
		_, err := clientgo.NewLock(config, electiontest.NewStore(nil), "jobs", options)
		if !errors.Is(err, election.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := clientgo.NewLock(good, nil, "jobs", election.Options{}); !errors.Is(err, election.ErrInvalid) {
		t.Errorf("without a backend: %v", err)
	}
}

// stuckEnv makes the test binary a program whose leadership is taken away.
const stuckEnv = "CONCLAVE_STUCK"

func TestProcessOfAStuckLoopEnds(t *testing.T) {
	if os.Getenv(stuckEnv) == "" {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
		child.Env = append(os.Environ(), stuckEnv+"=1")
		out, err := child.CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 ||
			!strings.Contains(string(out), "this process ends, so that no two act") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	store := electiontest.NewStore(nil)
	config := loop(true)
	began := make(chan struct{})
	config.Callbacks = leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(began) },
		OnStoppedLeading: func() {}}
	var err error
	if config.Lock, err = clientgo.NewLock(config, store, "jobs", election.Options{}); err != nil {
		t.Fatal(err)
	}
	go leaderelection.RunOrDie(t.Context(), config)
	<-began
	store.Take("jobs")
	<-t.Context().Done() // never: the process ends
}
