package record_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

var (
	trialSeeds = flag.Int("seeds", 60, "how many runs TestWholeCandidatesUnderFaults makes")
	trialSeed  = flag.Uint64("seed", 0, "the first seed")
	trialRare  = flag.Bool("rare", false, "look for the mutants, too, that take minutes")
)

const (
	trialLease  = time.Second
	trialChecks = 100 * time.Millisecond
	// trialSickMax is how long a leader may lead whose check fails: two checks, the pause
	// between them, one check that hangs before, and a moment.
	trialSickMax = 8 * trialChecks
)

// TestWholeCandidatesUnderFaults runs whole candidates (election and election/record, with their
// goroutines and timers) on virtual time against one simulated store, with user code that takes
// up to three leases in every callback. A seed decides the plan, every delay and every fault; the
// scheduler decides the order of goroutines that are ready at the same instant.
//
// A run explores some 20 virtual seconds of trouble with a lease of one second. There are 2 to 5
// candidates of different priorities, whose clocks differ in rate by the five per cent allowed,
// and whose wall clocks differ by up to an hour. They are paused, with their clock going on,
// stopped and started again. The store answers late, loses requests and answers, applies requests
// when nobody waits for them any more, fails without applying, applies without confirming, fails
// over and forgets up to two seconds, and has two sides for a while, one of which shows what it
// will lose. Links are cut. OnEvent, OnStuck, Warm, Health and the function block; functions
// outlive their leadership; checks and warm-ups fail. There are calls of Resign by a handle (also
// an old one), by the Elector and by an operator, and of TransferTo.
//
// What is judged, by the name with which a finding begins:
//
//	token     tokens grow
//	deadline  the last leader knows, by its context or its deadline, before another
//	          function begins
//	beside    nobody whose leadership claims to hold acts at the same time as a later one
//	resign    nobody gives up by Resign without being asked
//	transfer  nobody hands over before another candidate has warmed up
//	release   nothing is released while the function runs
//	renewal   a function that is stuck is not renewed
//	stuck     and OnStuck is called
//	health    a candidate that is not healthy does not continue to lead
//	loss      one EventLost for each EventElected
//	waits     when all is well, candidates lead in turn, and everything ends in time
//
//	go test ./election/record -run WholeCandidates -seeds 5000
//	go test ./election/record -run WholeCandidates -seed 17 -seeds 1 -count 20
func TestWholeCandidatesUnderFaults(t *testing.T) {
	if underRace {
		*trialSeeds = min(*trialSeeds, 2)
	}
	leaderships := 0
	for n := range uint64(*trialSeeds) {
		wrong, led := trialPlay(t, *trialSeed+n, trialSound)
		if len(wrong) > 0 {
			t.Fatalf("seed %d: %d findings, the first:\n%s", *trialSeed+n, len(wrong), wrong[0])
		}
		leaderships += led
	}
	t.Logf("%d runs, %d leaderships", *trialSeeds, leaderships)
	if leaderships < 10**trialSeeds {
		t.Errorf("only %d leaderships", leaderships)
	}
}

// TestWholeCandidatesFindMutants puts bugs back. Each must be found by what it breaks.
func TestWholeCandidatesFindMutants(t *testing.T) {
	if underRace {
		return // this test is about seeds, not about goroutines
	}
	for _, m := range trialMutants {
		if m.rare && !*trialRare {
			continue // it takes minutes
		}
		t.Run(m.name, func(t *testing.T) {
			t.Attr("what", m.what)
			began := time.Now()
			for seed := range uint64(2000) {
				wrong, _ := trialPlay(t, seed, m.mutant)
				for _, one := range wrong {
					kind := strings.Fields(one)[1]
					if slices.Contains(m.broken, strings.TrimSuffix(kind, ":")) {
						t.Logf("found after %d seeds, %.1f s: %s", seed+1, time.Since(began).Seconds(), one)
						return
					}
				}
				if len(wrong) > 0 {
					t.Fatalf("seed %d finds something else: %s", seed, wrong[0])
				}
			}
			t.Error("2000 seeds have not found it")
		})
	}
}

// trial is one run.
type trial struct {
	mutant     trialMutant
	start      time.Time
	store      *trialStore
	candidates []*trialCandidate
	operator   *record.Backend
	healed     context.Context // ends when the faults end
	background sync.WaitGroup

	mu          sync.Mutex
	token       election.Token // the greatest under which somebody has led
	terms       []*trialTerm
	leaderships int

	wrongMu sync.Mutex
	wrong   []string
}

func trialPlay(t *testing.T, seed uint64, mutant trialMutant) (wrong []string, leaderships int) {
	synctest.Test(t, func(*testing.T) {
		r := &trial{mutant: mutant, start: time.Now()}
		r.play(rand.New(rand.NewPCG(seed, 0)))
		wrong, leaderships = r.wrong, r.leaderships
	})
	return wrong, leaderships
}

func (t *trial) play(rng *rand.Rand) {
	seeded := func() *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), 0)) }
	healed, heal := context.WithCancel(context.Background())
	defer heal()
	t.healed = healed
	t.store = newTrialStore(t, seeded())
	over, stop := context.WithCancel(context.Background())
	defer stop()
	var running sync.WaitGroup
	for n := range 2 + rng.IntN(4) {
		t.candidates = append(t.candidates, t.candidate(n, seeded()))
	}
	onlooker := &trialCandidate{t: t, rng: seeded()}
	onlooker.link = &trialLink{store: t.store, c: onlooker}
	t.operator = record.New(onlooker.link, record.Options{})
	for _, c := range t.candidates {
		running.Go(func() { c.live(over) })
	}
	t.trouble(seeded())
	t.store.mu.Lock()
	t.store.quiet = true
	for _, c := range t.candidates {
		c.link.cutUntil, c.link.slowUntil = time.Time{}, time.Time{}
		c.mu.Lock()
		c.sick = time.Time{}
		c.mu.Unlock()
	}
	t.store.mu.Unlock()
	heal()
	time.Sleep(10 * time.Second) // leases run out, pauses end
	t.mu.Lock()
	before := t.leaderships
	t.mu.Unlock()
	time.Sleep(20 * time.Second)
	t.mu.Lock()
	if led := t.leaderships - before; led < 5 {
		t.fail("waits: %d leaderships in 20 seconds in which all is well", led)
	}
	t.mu.Unlock()
	stop()
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	if !trialUntil(ended, 20*time.Second) {
		t.fail("waits: candidates do not end")
		panic(fmt.Sprint(t.wrong))
	}
	_ = t.operator.Close()
	t.background.Wait()
	for _, c := range t.candidates {
		if c.elected != c.lost {
			t.fail("loss: %s was elected %d times and has lost %d times", c.id, c.elected, c.lost)
		}
	}
}

func trialUntil(done <-chan struct{}, limit time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// candidate makes one, with a clock, a wall clock and a priority of its own.
func (t *trial) candidate(n int, rng *rand.Rand) *trialCandidate {
	c := &trialCandidate{t: t, n: n, id: fmt.Sprint("c", n), rng: rng}
	c.link = &trialLink{store: t.store, c: c}
	c.clock = &trialClock{c: c, start: time.Now(), rate: []float64{0.975, 0.975, 1, 1.025, 1.025}[rng.IntN(5)]}
	wrong := time.Duration(rng.IntN(7200)-3600) * time.Second
	backend := record.New(t.mutant.store(c.link), record.Options{Clock: c.clock,
		Wall: func() time.Time { return time.Now().Add(wrong) }})
	options := election.Options{ID: c.id, Lease: trialLease, Clock: c.clock,
		Retry: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond, Priority: rng.IntN(3),
		EndLimit: time.Duration(200+rng.IntN(1000)) * time.Millisecond, WarmLimit: time.Second,
		Warm: c.warm, OnEvent: c.onEvent, OnStuck: c.onStuck}
	if c.checked = rng.IntN(2) == 0; c.checked {
		options.Health, options.HealthEvery, options.HealthFailures = c.health, trialChecks, 2
	}
	c.options = t.mutant.options(options)
	elector, err := election.New(t.mutant.backend(c, backend), "e", c.options)
	if err != nil {
		panic(err)
	}
	c.elector = elector
	return c
}

// live runs the candidate until the context ends. It is stopped and started again from time to
// time.
func (c *trialCandidate) live(over context.Context) {
	for over.Err() == nil {
		ctx, cancel := context.WithCancel(over)
		if c.t.healed.Err() == nil {
			ctx, cancel = context.WithTimeout(over, time.Duration(1000+c.pick(20_000))*time.Millisecond)
		}
		_ = c.elector.Run(ctx, c.function)
		cancel()
		trialNap(over, time.Duration(c.pick(300))*time.Millisecond)
	}
}

// leader is the candidate whose function began last, or another if there is none.
func (t *trial) leader(other *trialCandidate) *trialCandidate {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.terms); n > 0 {
		return t.terms[n-1].c
	}
	return other
}

// trouble causes a fault from time to time.
func (t *trial) trouble(rng *rand.Rand) {
	until := time.Now().Add(time.Duration(10+rng.IntN(20)) * time.Second)
	often := []int{200, 1000, 4000}[rng.IntN(3)]
	for time.Now().Before(until) {
		time.Sleep(time.Duration(rng.IntN(often)) * time.Millisecond)
		c, lasts := t.candidates[rng.IntN(len(t.candidates))], time.Duration(rng.IntN(3000))*time.Millisecond
		if rng.IntN(2) == 0 {
			c = t.leader(c)
		}
		switch rng.IntN(8) {
		case 0:
			t.store.fail()
			if rng.IntN(2) == 0 { // all but one lose their connections, too
				t.store.mu.Lock()
				for _, other := range t.candidates {
					if other != c {
						other.link.cutUntil = time.Now().Add(lasts / 3)
					}
				}
				t.store.mu.Unlock()
			}
		case 1:
			t.store.part(lasts)
		case 2, 3:
			t.store.mu.Lock()
			c.link.cutUntil = time.Now().Add(lasts)
			t.store.mu.Unlock()
		case 4:
			t.store.mu.Lock()
			c.link.slowUntil = time.Now().Add(lasts / 2)
			c.link.cutUntil = time.Now().Add(lasts)
			t.store.mu.Unlock()
		case 6:
			c.pause(lasts)
		case 5:
			c.mu.Lock()
			c.sick = time.Now()
			c.mu.Unlock()
			time.AfterFunc(lasts, func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.sick = time.Time{}
			})
		}
	}
}
