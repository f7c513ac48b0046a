package recipes_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm"
	"github.com/conclave-project/conclave/internal/storm/machines"
	"github.com/conclave-project/conclave/zk"
)

// TestRecipesThroughStorms runs the recipes with everything that they use, with nothing replaced:
// clients, and an ensemble of whole servers. They run on virtual time, each machine by a clock of
// its own, which is as wrong as clocks may be. Servers lose power and have slow disks; clients
// vanish, close their sessions and give up in the middle of a recipe; connections break or go
// silent in one direction or both; and all of this happens at the same time. The test checks that:
//
//   - nobody has a lock at the same time as another, except for readers; tokens grow; and what is
//     written through a lock is never older than what was there;
//   - an item that was put in is taken out once, none is lost, and none blocks the queue for ever;
//   - no two clients get the same number of a counter, and it counts everything that it confirmed;
//   - nobody enters a double barrier before enough are there;
//   - once everything is whole again, each recipe goes on within 20 s, for each client;
//   - once all clients have gone, nothing of them is left in a line.
func TestRecipesThroughStorms(t *testing.T) {
	storm.Through(t, 4, func(t *testing.T, seed uint64) storm.Played { return newRecipesStorm(t, seed) })
}

const (
	stormPrograms = 4
	stormWell     = 20 * time.Second // until each recipe goes on, for each client
	firstMachine  = 11
)

// recipesStorm is an ensemble, the programs that use it, and what they have done.
type recipesStorm struct {
	storm.Story
	t         *testing.T
	random    *rand.Rand // of the goroutine that causes the faults
	ensemble  *machines.Ensemble
	programs  []*program
	last      int // the machine of the newest program
	slowest   time.Duration
	partySize int
	quiet     atomic.Bool    // nobody holds a lock for long
	gone      sync.WaitGroup // programs that have vanished

	mu      sync.Mutex
	unled   time.Time      // when the servers were last without a leader
	done    map[string]int // how often each recipe has finished
	spans   []*span        // the times when locks were held
	parties []*span        // from the call of Enter to the end of Leave
	writes  []write
	put     map[string]outcome // items
	taken   map[string][]outcome
	counted map[int64]string
	unsure  int64 // numbers that may have been counted
}

// span is a period during which a program holds a lock, or takes part in something.
type span struct {
	of, who  string
	shared   bool
	entered  bool // has entered the double barrier
	stays    bool // its znode may be there for a while
	token    zk.Zxid
	from, to time.Time // to is zero while it lasts
}

// write is a write that was made through a lock.
type write struct {
	version int32
	token   zk.Zxid
}

type outcome = client.Outcome

func newRecipesStorm(t *testing.T, seed uint64) *recipesStorm {
	w := &recipesStorm{t: t, random: rand.New(rand.NewPCG(seed, 4)), Story: storm.Story{Began: time.Now()}, last: firstMachine - 1,
		done: map[string]int{}, put: map[string]outcome{}, taken: map[string][]outcome{}, counted: map[int64]string{}}
	w.partySize = stormPrograms - w.random.IntN(2)
	far := []time.Duration{0, time.Millisecond, 15 * time.Millisecond}[w.random.IntN(3)]
	w.ensemble = machines.Start(t, w.random, machines.Options{Far: far, Say: w.Say, Breach: w.Breach})
	w.whole()
	return w
}

func (w *recipesStorm) whole() {
	w.ensemble.Whole()
	for len(w.programs) < stormPrograms {
		w.stand()
	}
}

// stand starts a program on a machine of its own.
func (w *recipesStorm) stand() {
	w.last++
	p := &program{w: w, name: fmt.Sprint("p", w.last), machine: w.last, clock: bubble.DriftingClock(w.random),
		random: rand.New(rand.NewPCG(w.random.Uint64(), 3))}
	p.start()
	w.programs = append(w.programs, p)
}

// Play implements storm.Played.
func (w *recipesStorm) Play(faults int) {
	for i := range faults {
		w.fault()
		pause := time.Duration(w.random.Float64() * w.random.Float64() * float64(4*time.Second))
		for until := time.Now().Add(pause); time.Now().Before(until); w.tick() {
		}
		if i%10 == 9 || i == faults-1 {
			w.calm()
		}
		if w.Why() != "" {
			break
		}
	}
	w.ensemble.Whole()
	w.stop()
	if w.Why() == "" {
		w.judge()
	}
	w.ensemble.End()
}

func (w *recipesStorm) fault() {
	i := w.random.IntN(len(w.programs))
	p := w.programs[i]
	switch w.random.IntN(12) {
	case 0:
		w.Say("%s vanishes", p.name)
		w.ensemble.Net.Power(p.machine, false)
		w.programs = slices.Delete(w.programs, i, i+1)
		p.die()
		w.gone.Go(p.ended.Wait)
		w.stand()
	case 1, 2:
		w.ensemble.Late(p.machine, 2*time.Second)
	case 3:
		w.Say("%s closes its session", p.name)
		p.close()
	case 4:
		w.ensemble.Isolate(p.machine, w.machines())
	default:
		w.ensemble.Fault(w.machines())
	}
}

// machines returns the machines of the programs.
func (w *recipesStorm) machines() []int {
	var all []int
	for _, p := range w.programs {
		all = append(all, p.machine)
	}
	return all
}

// calm heals everything, and waits until each recipe goes on.
func (w *recipesStorm) calm() {
	w.Say("calm")
	w.quiet.Store(true)
	defer w.quiet.Store(false)
	w.whole()
	w.mu.Lock()
	before := maps.Clone(w.done)
	w.mu.Unlock()
	for began := time.Now(); ; w.tick() {
		waits := w.waits(before)
		if waits == "" && w.ensemble.Serve() {
			break
		}
		if time.Since(began) > stormWell {
			w.Breach("not well %v after all is healed: all serve: %v; %s", stormWell, w.ensemble.Serve(), waits)
			return
		}
		w.slowest = max(w.slowest, time.Since(began))
	}
	w.Say("well")
}

// tick lets some time pass, and notes whether somebody leads the servers.
func (w *recipesStorm) tick() {
	time.Sleep(10 * time.Millisecond)
	if !w.ensemble.Led() {
		w.mu.Lock()
		w.unled = time.Now()
		w.mu.Unlock()
	}
}

// waits returns which recipes of which programs have not finished since.
func (w *recipesStorm) waits(before map[string]int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var waits []string
	for _, p := range w.programs {
		for _, one := range stormRecipes {
			if name := p.name + " " + one.name; w.done[name] == before[name] {
				waits = append(waits, name)
			}
		}
	}
	return strings.Join(waits, ", ")
}

// Sum returns how often each recipe has finished.
func (w *recipesStorm) Sum() string {
	sum := map[string]int{}
	for name, n := range w.done {
		_, recipe, _ := strings.Cut(name, " ")
		sum[recipe] += n
	}
	return fmt.Sprintf("%d servers, %s, slowest to be well again %v", w.ensemble.Len(), strings.TrimPrefix(fmt.Sprint(sum), "map"), w.slowest)
}

// stop ends all programs.
func (w *recipesStorm) stop() {
	for _, p := range w.programs {
		p.over()
	}
	for _, p := range w.programs {
		p.ended.Wait()
	}
	w.gone.Wait()
}
