// Package storm is for tests on the virtual time of a bubble of testing/synctest: candidates that
// campaign while a test breaks what they rest on, and a judge of what they did.
//
// In go a backend for each candidate and the faults, out comes what was wrong. Every leadership is
// held to the last moment of its lease. Judged is:
//
//	storm-S1  No two candidates lead at one time, and tokens grow.
//	storm-S2  No store takes a leadership from a candidate before its lease is over.
//	storm-S3  Nobody is elected who has left.
//	storm-S4  When all is whole again somebody leads within Well, and the store shows that one.
//	storm-S5  Of a group each partition has an owner by then, no member has two more than another,
//	          and no member has ended by itself.
//	storm-S6  The history has the leaderships in their order, each with its leader.
//	storm-S7  When all is well no more requests are made in a lease than are to be, and a leader
//	          that ends is followed within half a lease.
//	storm-S8  What was released does not stand in the store any more, also not by a request that
//	          comes late, as far as the store says what stands there (Stands).
//
// It breaks nothing by itself, and knows no store.
package storm

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/election"
)

// What every storm is about.
const (
	Candidates = 4 // at a time
	Election   = "storm"
	Group      = "group"
	Partitions = 5
)

// Storm is candidates, and what they did.
type Storm struct {
	Story
	Lease   time.Duration
	Grouped bool          // the candidates are members of a group as well
	Well    time.Duration // until somebody leads again, and partitions are shared
	Random  *rand.Rand    // of the goroutine that breaks
	Running []*Candidate
	Quiet   atomic.Bool    // all is whole, for a while
	Gone    sync.WaitGroup // candidates that have vanished, and what operators do

	// Observer, if not nil, is a backend over a way to the store on which nothing is lost, which
	// nobody campaigns with.
	Observer election.Backend

	// Requests, if not nil, is how many requests all candidates have made so far, and RequestsMax how
	// many they may make in a lease when all is well.
	Requests    func() int
	RequestsMax int

	slowest time.Duration
	busiest int // requests in a lease

	mu      sync.Mutex
	spans   []*span
	expired int
	ended   map[string]bool // nonces of claims that were released
}

// New returns a storm in which nothing happens yet, with a lease of one to four seconds.
func New(seed uint64, grouped bool) *Storm {
	w := &Storm{Grouped: grouped, Random: rand.New(rand.NewPCG(seed, 2)), Story: Story{Began: time.Now()}, Well: 20 * time.Second,
		ended: make(map[string]bool)}
	w.Lease = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}[w.Random.IntN(3)]
	return w
}

// Sum says how much a storm has shown.
func (w *Storm) Sum() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("a lease of %v: %d leaderships in %v, %d of them expired, slowest to be well again %v, %d requests in a lease",
		w.Lease, len(w.spans), time.Since(w.Began).Round(time.Second), w.expired, w.slowest, w.busiest)
}

// Rage breaks and heals so many times, and looks now and then whether all is well.
func (w *Storm) Rage(faults int, fault, heal func(), isWhole func() bool) {
	for i := range faults {
		fault()
		time.Sleep(time.Duration(w.Random.Float64() * w.Random.Float64() * 2 * float64(w.Lease)))
		if i%10 == 9 || i == faults-1 {
			w.calm(heal, isWhole)
		}
		if w.Why() != "" {
			return
		}
	}
}

// calm heals everything, and waits until all is well (storm-S4).
func (w *Storm) calm(heal func(), isWhole func() bool) {
	w.Say("calm")
	w.Quiet.Store(true)
	defer w.Quiet.Store(false)
	heal()
	for _, c := range w.Running {
		c.leaveIn.Store(0)
	}
	for began := time.Now(); !isWhole() || !w.isWell(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > w.Well {
			w.Breach("not well %v after all is healed: %s", w.Well, w.state())
			return
		}
		w.slowest = max(w.slowest, time.Since(began))
	}
	w.Say("well")
	w.idle()
}

// idle looks at what is done while all is well (storm-S7).
func (w *Storm) idle() {
	if w.Requests == nil {
		return
	}
	const leases = 3
	time.Sleep((leases + 1) * w.Lease) // all are there again, and what was late has arrived
	began, before := time.Now(), w.Requests()
	time.Sleep(leases * w.Lease)
	if gap := w.gap(began); gap > w.Lease/2 {
		w.Breach("nobody led for %v, though all was well", gap)
	}
	made := (w.Requests() - before) / leases
	if w.busiest = max(w.busiest, made); made > w.RequestsMax {
		w.Breach("%d requests in a lease when all is well", made)
	}
}

// End ends all candidates.
func (w *Storm) End() {
	for _, c := range w.Running {
		w.Gone.Go(c.vanish)
	}
	w.Gone.Wait()
	w.Running = nil
}
