package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Torture lets candidates lead one after the other while the store suffers random faults.
// It looks for two that lead at the same time, and for tokens that do not grow. A candidate
// lives for a few leases; its successor does not know anything of it.
type Torture struct {
	// Candidates is the number of candidates that live at the same time.
	Candidates int
	// Open opens a backend for a candidate as a new process would.
	Open Opener
	// URL returns the store's URL for a candidate, 0 to Candidates-1.
	URL func(candidate int) string
	// Faults are the faults by name. Each function returns when its fault is over.
	Faults map[string]func(t *testing.T, random *rand.Rand)
	// BeginAgain names the Faults after which the store knows nothing of the election, so
	// tokens may begin again from the wall clock (record-R4). No token from before such a
	// fault is compared with one from after it.
	BeginAgain []string
	// Lease is the candidates' lease. LeadersMin is how many leaderships the test needs to
	// show anything.
	Lease      time.Duration
	LeadersMin int
	// For is how long the faults last: 20 s, or the value of TortureVariable. Seed repeats
	// the same faults, as far as real time allows.
	For  time.Duration
	Seed uint64
}

// TortureVariable is the environment variable that says how long a test lasts, for instance
// "10m".
const TortureVariable = "CONCLAVE_TORTURE"

// lasts returns how long the test lasts.
func (x Torture) lasts(t *testing.T) time.Duration {
	text := os.Getenv(TortureVariable)
	switch {
	case x.For > 0:
		return x.For
	case text == "":
		return 20 * time.Second
	}
	long, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", TortureVariable, err)
	}
	return long
}

// draw chooses Seed and For if they are not set, and logs them.
func (x *Torture) draw(t *testing.T) {
	if x.Seed == 0 {
		x.Seed = rand.Uint64()
	}
	x.For = x.lasts(t)
	t.Logf("seed %d, %v", x.Seed, x.For)
}

// span is the time during which a candidate considered itself leader.
type span struct {
	who      string
	token    election.Token
	from, to clock.Instant
}

// spans are the spans of all candidates.
type spans struct {
	mu     sync.Mutex
	list   []span
	begins []begin
}

// begin is a period in which tokens may have begun again: from the start of a fault until
// all grants from before it have ended.
type begin struct{ from, to clock.Instant }

func (b *spans) add(one span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, one)
}

func (b *spans) addBegin(one begin) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begins = append(b.begins, one)
}

// comparable reports whether the token of the earlier span must be below that of the later
// one.
func (b *spans) comparable(before, after span) bool {
	return !slices.ContainsFunc(b.begins, func(again begin) bool { return before.from < again.to && after.from > again.from })
}

func (b *spans) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.list)
}

// judge describes each fault found: two leaders at the same time, or a token that did not
// grow.
func (b *spans) judge() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortFunc(b.list, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var wrong []string
	for i := 1; i < len(b.list); i++ {
		before, after := b.list[i-1], b.list[i]
		if after.from < before.to {
			wrong = append(wrong, fmt.Sprintf("%s (token %d) led beside %s (token %d) for %v",
				after.who, after.token, before.who, before.token, before.to.Sub(after.from)))
		}
		if after.token <= before.token && b.comparable(before, after) {
			wrong = append(wrong, fmt.Sprintf("%s has token %d after %s with %d", after.who, after.token, before.who, before.token))
		}
	}
	return wrong
}

// Run runs the test.
func (x Torture) Run(t *testing.T) {
	x.draw(t)
	all := &spans{}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range x.Candidates {
		group.Go(func() { x.campaign(ctx, t, all, i) })
	}
	x.suffer(t, all)
	x.awaitLeader(t, all)
	stop()
	group.Wait()
	for _, wrong := range all.judge() {
		t.Error(wrong)
	}
	t.Logf("%d leaderships", all.count())
	if all.count() < x.LeadersMin {
		t.Errorf("%d leaderships show nothing", all.count())
	}
}

// lives runs one candidate after the other, each for a random time of up to leasesMax
// leases, until the context ends.
func (x Torture) lives(ctx context.Context, t *testing.T, i, leasesMax int, live func(context.Context, *rand.Rand, election.Backend, election.Options)) {
	random := rand.New(rand.NewPCG(x.Seed, uint64(i)))
	for life := 0; ctx.Err() == nil; life++ {
		backend, end, err := x.Open(ctx, x.URL(i))
		if err != nil {
			t.Error(err)
			return
		}
		living, die := context.WithTimeout(ctx, time.Duration(random.Int64N(int64(leasesMax)*int64(x.Lease))))
		live(living, random, backend, election.Options{ID: fmt.Sprintf("c%d.%d", i, life), Lease: x.Lease,
			Retry: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond})
		die()
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// campaign runs one candidate after the other.
func (x Torture) campaign(ctx context.Context, t *testing.T, all *spans, i int) {
	x.lives(ctx, t, i, 3, func(living context.Context, random *rand.Rand, backend election.Backend, options election.Options) {
		elector, err := election.New(backend, "torture", options)
		if err != nil {
			t.Error(err)
			return
		}
		_ = elector.Run(living, x.lead(all, options.ID, random)) // returns when its life ends
	})
}

// lead returns the function of a leader: for a while it checks, as often as it can, that it
// still leads.
func (x Torture) lead(all *spans, id string, random *rand.Rand) func(context.Context, election.Leadership) error {
	return func(_ context.Context, lead election.Leadership) error {
		one := span{who: id, token: lead.Token(), from: clock.Now()}
		until := one.from.Add(time.Duration(random.Int64N(int64(3 * x.Lease))))
		for now := one.from; lead.Err() == nil && now < until; now = clock.Now() {
			one.to = now
			time.Sleep(time.Millisecond)
		}
		if one.to > 0 { // it led at the first check
			all.add(one)
		}
		return nil
	}
}

// suffer causes faults, one after the other.
func (x Torture) suffer(t *testing.T, all *spans) {
	var names []string
	for name := range x.Faults {
		names = append(names, name)
	}
	slices.Sort(names)
	random := rand.New(rand.NewPCG(x.Seed, 1<<63))
	counts := map[string]int{}
	for began := time.Now(); time.Since(began) < x.For && !t.Failed(); {
		time.Sleep(time.Duration(random.Int64N(int64(2 * x.Lease)))) // random, like the faults
		name := names[random.IntN(len(names))]
		counts[name]++
		from := clock.Now()
		x.Faults[name](t, random)
		if slices.Contains(x.BeginAgain, name) {
			all.addBegin(begin{from, clock.Now().Add(x.Lease)})
		}
	}
	t.Logf("faults %v", counts)
}

// awaitLeader returns when there was a leader after the last fault.
func (x Torture) awaitLeader(t *testing.T, all *spans) {
	before := all.count()
	for began := time.Now(); all.count() < before+2; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience+10*x.Lease {
			t.Error("nobody leads though all is well again")
			return
		}
	}
}
