// Package storm tests elections on the virtual time of a bubble of testing/synctest:
// candidates campaign while a test breaks what they depend on, and a judge checks what they
// did.
//
// A test supplies a backend for each candidate and the faults; the storm reports what went
// wrong. Every leadership may last to the last moment of its lease. The judge checks:
//
//	storm-S1  No two candidates lead at the same time, and tokens grow.
//	storm-S2  No store takes a leadership from a candidate before its lease is over.
//	storm-S3  No candidate is elected after it has left.
//	storm-S4  When everything works again, somebody leads within Well, and the store shows that
//	          leader.
//	storm-S5  In a group, each partition has an owner by then, no member has two more than another,
//	          and no member has ended by itself.
//	storm-S6  The history has the leaderships in order, each with its leader.
//	storm-S7  When all is well, no more requests are made in a lease than allowed, and a leader
//	          that ends is succeeded within half a lease.
//	storm-S8  What was released is no longer in the store, and a late request does not put it
//	          back; this is checked if the store reports what it has (Stands).
//
// The package breaks nothing by itself, and knows no store.
package storm

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/election"
)

// Used by every storm.
const (
	Candidates = 4 // at the same time
	Election   = "storm"
	Group      = "group"
	Partitions = 5
)

// Storm is a set of candidates and a record of what they did.
type Storm struct {
	Story
	Lease   time.Duration
	Grouped bool          // the candidates are also members of a group
	Well    time.Duration // time until somebody must lead again and partitions must be shared
	Random  *rand.Rand    // for the goroutine that breaks things
	Running []*Candidate
	Quiet   atomic.Bool    // everything works, for a while
	Gone    sync.WaitGroup // candidates that have vanished, and operators' requests

	// Observer, if not nil, is a backend with a connection to the store on which nothing is
	// lost. No candidate campaigns on it.
	Observer election.Backend

	// Requests, if not nil, returns how many requests all candidates have made so far;
	// RequestsMax is how many they may make in a lease when all is well.
	Requests    func() int
	RequestsMax int

	slowest time.Duration
	busiest int // most requests in a lease

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

// Sum describes how much a storm has tested.
func (w *Storm) Sum() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("a lease of %v: %d leaderships in %v, %d of them expired, slowest to be well again %v, %d requests in a lease",
		w.Lease, len(w.spans), time.Since(w.Began).Round(time.Second), w.expired, w.slowest, w.busiest)
}

// Rage breaks and heals the given number of times, and checks now and then that all is
// well.
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

// idle checks what happens while all is well (storm-S7).
func (w *Storm) idle() {
	if w.Requests == nil {
		return
	}
	const leases = 3
	time.Sleep((leases + 1) * w.Lease) // all candidates are back, and late messages have arrived
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
