package holders_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/holders"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/bubble"
)

// cut is the way of one candidate to the store, until the candidate is partitioned, frozen or
// killed: then it renews and releases nothing any more. Grants take a moment, so that those of
// several places arrive at the same time.
type cut struct {
	backend
	off atomic.Bool
}

type backend = election.Backend

// unanswered is a request that fails after a while.
func (c *cut) unanswered(ctx context.Context) error {
	sleep(ctx, time.Second)
	return errors.New("no answer")
}

func (c *cut) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	if c.off.Load() {
		return election.Grant{}, c.unanswered(ctx)
	}
	grant, err := c.backend.Acquire(ctx, claim)
	time.Sleep(10 * time.Millisecond) // of the bubble's time
	return grant, err
}

func (c *cut) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	if c.off.Load() {
		return election.Grant{}, c.unanswered(ctx)
	}
	return c.backend.Renew(ctx, grant)
}

func (c *cut) Release(ctx context.Context, grant election.Grant) error {
	if c.off.Load() {
		return c.unanswered(ctx)
	}
	return c.backend.Release(ctx, grant)
}

// acting counts the holders that act.
type acting struct {
	t            *testing.T
	mu           sync.Mutex
	now, most, n int
	places       map[int]bool
	ids          map[string]bool
}

func (a *acting) begin(place int, id string, limit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now, a.n = a.now+1, a.n+1
	a.most = max(a.most, a.now)
	if a.now > limit || a.places[place] {
		a.t.Errorf("%d act of %d, in place %d: %v", a.now, limit, place, a.places[place])
	}
	if a.ids[id] {
		a.t.Errorf("%s acts in two places", id)
	}
	a.places[place], a.ids[id] = true, true
}

func (a *acting) end(place int, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now--
	delete(a.places, place)
	delete(a.ids, id)
}

// TestNeverMoreThanNAct: eight candidates want one of three places, again and again. Some
// holders finish, some are partitioned from the store and act until their context ends, some
// are killed and release nothing.
func TestNeverMoreThanNAct(t *testing.T) {
	const candidates, places, seeds = 8, 3, 20
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			c := bubble.Clock(1)
			store := electiontest.NewStore(c)
			a := &acting{t: t, places: map[int]bool{}, ids: map[string]bool{}}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var all sync.WaitGroup
			for i := range candidates {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(i)))
					for ctx.Err() == nil {
						hold(ctx, t, c, &cut{backend: store}, fmt.Sprint("c", i), places, a, rng)
					}
				})
			}
			all.Wait()
			if a.most != places || a.n < 100 {
				t.Errorf("seed %d: %d acted at once at most, %d in all", seed, a.most, a.n)
			}
		})
	}
}

// hold takes a place once, and uses it as chance decides.
func hold(ctx context.Context, t *testing.T, c clock.Clock, way *cut, id string, places int, a *acting, rng *rand.Rand) {
	h, err := holders.New(way, "pool", places, election.Options{ID: id, Lease: 10 * time.Second, Clock: c})
	if err != nil {
		t.Error(err)
		return
	}
	fate, lasts := rng.IntN(3), time.Duration(rng.IntN(20_000))*time.Millisecond
	_ = h.Hold(ctx, func(ctx context.Context, place holders.Place) error {
		a.begin(place.Number, id, places)
		defer a.end(place.Number, id)
		select {
		case <-time.After(lasts):
		case <-ctx.Done():
			return nil
		}
		switch fate {
		case 1: // frozen
			way.off.Store(true)
			<-ctx.Done()
		case 2: // killed
			way.off.Store(true)
		}
		return nil
	})
}

// TestCandidateActsInOnePlaceOfThoseThatItIsGranted: all places are free, and the grants arrive
// at the same moment.
func TestCandidateActsInOnePlaceOfThoseThatItIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.Clock(1)
		h, err := holders.New(&cut{backend: electiontest.NewStore(c)}, "pool", 8, election.Options{ID: "a", Lease: 10 * time.Second, Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			var acted atomic.Int32
			err := h.Hold(t.Context(), func(ctx context.Context, _ holders.Place) error {
				acted.Add(1)
				time.Sleep(time.Second)
				return ctx.Err()
			})
			if n := acted.Load(); err != nil || n != 1 {
				t.Fatalf("it acted in %d places: %v", n, err)
			}
		}
	})
}

func TestHoldReturnsWhatTheFunctionDoes(t *testing.T) {
	h, err := holders.New(electiontest.NewStore(nil), "pool", 3, election.Options{ID: "a", Lease: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	own := errors.New("own")
	if err := h.Hold(t.Context(), func(context.Context, holders.Place) error { return own }); !errors.Is(err, own) {
		t.Errorf("Hold: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err = h.Hold(ended, func(context.Context, holders.Place) error { t.Error("it acts"); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Hold without time: %v", err)
	}
}

// TestPriorityEndsNoHolders: a candidate waits for all places, and would outrank the holder of
// each, although it needs only one. The health check is one for all its places.
func TestPriorityEndsNoHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, lease = 5, 10 * time.Second
		c := bubble.Clock(1)
		store := record.New(record.NewMemory(c), record.Options{Clock: c})
		ctx, cancel := context.WithCancel(t.Context())
		var ended, checks, acts atomic.Int32
		var all sync.WaitGroup
		for i := range places + 1 {
			o := election.Options{ID: fmt.Sprint("c", i), Lease: lease, Clock: c}
			if i == places {
				o.Priority, o.HealthEvery = election.PriorityMax, lease/10
				o.Health = func(context.Context) error { checks.Add(1); return nil }
			}
			h, err := holders.New(store, "pool", places, o)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				_ = h.Hold(ctx, func(ctx context.Context, _ holders.Place) error {
					acts.Add(1)
					<-ctx.Done()
					return nil
				})
				ended.Add(1)
			})
			time.Sleep(lease)
		}
		before := checks.Load()
		time.Sleep(10 * lease)
		if ended.Load() > 0 || acts.Load() != places {
			t.Errorf("%d have acted in %d places, and %d were ended", acts.Load(), places, ended.Load())
		}
		if made := checks.Load() - before; made < 90 || made > 140 {
			t.Errorf("%d health checks in the time of 100", made)
		}
		cancel()
		all.Wait()
	})
}

func TestPlacesAreBounded(t *testing.T) {
	for _, n := range []int{-1, 0, holders.PlacesMax + 1} {
		if _, err := holders.New(electiontest.NewStore(nil), "pool", n, election.Options{}); !errors.Is(err, election.ErrInvalid) {
			t.Errorf("%d places: %v", n, err)
		}
	}
}

// At most three hosts rebuild their index at a time.
func ExampleCandidate_Hold() {
	host, err := holders.New(electiontest.NewStore(nil), "reindex", 3, election.Options{ID: "host-1"})
	if err != nil {
		panic(err)
	}
	err = host.Hold(context.Background(), func(ctx context.Context, place holders.Place) error {
		fmt.Println(place.ID(), "acts with token", place.Token())
		return nil
	})
	fmt.Println(err)
	// Output:
	// host-1 acts with token 1
	// <nil>
}

// A candidate has one place, even while it acts and no elector for the other places runs.
func TestSecondHoldIsRefused(t *testing.T) {
	c, err := holders.New(electiontest.NewStore(nil), "t", 2, election.Options{ID: "a", Lease: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	hold := func(inside func()) error {
		return c.Hold(t.Context(), func(context.Context, holders.Place) error { inside(); return nil })
	}
	err = hold(func() {
		if err := hold(func() { t.Error("it acts in a second place") }); !errors.Is(err, election.ErrRunning) {
			t.Error(err)
		}
	})
	if err != nil {
		t.Error(err)
	}
	if err := hold(func() {}); err != nil {
		t.Errorf("after the first: %v", err)
	}
}
