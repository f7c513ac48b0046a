package recipes_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm/machines"
	"github.com/conclave-project/conclave/zk"
)

var (
	stormSeed   = flag.Uint64("storm", 1, "the seed of the first storm")
	storms      = flag.Uint64("storms", 4, "how many storms, of seeds one after the other")
	stormFaults = flag.Int("faults", 60, "how many faults a storm has")
	stormPrint  = flag.Bool("print", false, "print what the storms do")
)

// All that a recipe takes, with nothing put in its place: clients, and an ensemble of whole
// servers. They run on virtual time, each machine by a clock of its own, as wrong as clocks may be.
// Servers lose their power and have slow disks, clients vanish, close their sessions and give up in
// the middle of a recipe, connections break and are silent in one direction or both, all at one
// time. Judged is:
//
//   - nobody has a lock beside another, but readers, and its tokens grow; what is written through
//     a lock is never older than what was;
//   - an item that was put in is taken out once, none is lost, and none is in the way for ever;
//   - no two get the same number of a counter, and it counts all that it has confirmed;
//   - nobody enters a double barrier before enough are there;
//   - when all is whole again each recipe goes on within 20 s, for each client;
//   - when all clients have gone nothing is left of them in a line.
func TestRecipesThroughStorms(t *testing.T) {
	for seed := *stormSeed; seed < *stormSeed+*storms; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStorm(t, seed)
				w.rage(*stormFaults)
				w.end()
				if w.why != "" {
					t.Fatalf("%s\n%s", w.why, strings.Join(w.said[max(0, len(w.said)-80):], "\n"))
				}
				t.Logf("%d servers, %s, slowest to be well again %v", w.ensemble.Len(), w.sum(), w.slowest)
			})
		})
	}
}

const (
	stormPrograms = 4
	stormWell     = 20 * time.Second // until each recipe goes on, for each client
	firstMachine  = 11
)

// storm is an ensemble, the programs that use it, and what they have done.
type storm struct {
	t         *testing.T
	random    *rand.Rand // of the goroutine that breaks
	ensemble  *machines.Ensemble
	programs  []*program
	last      int // machine of the newest program
	began     time.Time
	slowest   time.Duration
	partySize int
	quiet     atomic.Bool    // nobody holds a lock for long
	gone      sync.WaitGroup // programs that have vanished

	mu      sync.Mutex
	said    []string
	why     string
	unled   time.Time      // when nobody has led the servers last
	done    map[string]int // how often each recipe has come to its end
	spans   []*span        // of locks
	parties []*span        // from the call of Enter to the end of Leave
	writes  []write
	put     map[string]outcome // items
	taken   map[string][]outcome
	counted map[int64]string
	unsure  int64 // numbers that may have been counted
}

// span is a time during which a program holds a lock, or takes part in something.
type span struct {
	of, who  string
	shared   bool
	entered  bool // the double barrier
	stays    bool // its znode may be there for a while
	token    zk.Zxid
	from, to time.Time // to is zero while it lasts
}

// write is one that was made through a lock.
type write struct {
	version int32
	token   zk.Zxid
}

type outcome = client.Outcome

func newStorm(t *testing.T, seed uint64) *storm {
	w := &storm{t: t, random: rand.New(rand.NewPCG(seed, 4)), began: time.Now(), last: firstMachine - 1,
		done: map[string]int{}, put: map[string]outcome{}, taken: map[string][]outcome{}, counted: map[int64]string{}}
	w.partySize = stormPrograms - w.random.IntN(2)
	far := []time.Duration{0, time.Millisecond, 15 * time.Millisecond}[w.random.IntN(3)]
	w.ensemble = machines.Start(t, w.random, machines.Options{Far: far, Say: w.say, Breach: w.breach})
	w.whole()
	return w
}

func (w *storm) whole() {
	w.ensemble.Whole()
	for len(w.programs) < stormPrograms {
		w.stand()
	}
}

// stand starts a program on a machine of its own.
func (w *storm) stand() {
	w.last++
	p := &program{w: w, name: fmt.Sprint("p", w.last), machine: w.last, clock: bubble.DriftingClock(w.random),
		random: rand.New(rand.NewPCG(w.random.Uint64(), 3))}
	p.start()
	w.programs = append(w.programs, p)
}

func (w *storm) say(format string, args ...any) {
	line := fmt.Sprintf("%9.3f ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, line)
	if *stormPrint {
		fmt.Println(line)
	}
}

func (w *storm) breach(format string, args ...any) {
	w.say("BREACH "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == "" {
		w.why = fmt.Sprintf(format, args...)
	}
}

func (w *storm) broken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why != ""
}

// rage breaks and heals, and looks now and then whether all goes on.
func (w *storm) rage(faults int) {
	for i := range faults {
		w.fault()
		pause := time.Duration(w.random.Float64() * w.random.Float64() * float64(4*time.Second))
		for until := time.Now().Add(pause); time.Now().Before(until); w.tick() {
		}
		if i%10 == 9 || i == faults-1 {
			w.calm()
		}
		if w.broken() {
			return
		}
	}
}

func (w *storm) fault() {
	i := w.random.IntN(len(w.programs))
	p := w.programs[i]
	switch w.random.IntN(12) {
	case 0:
		w.say("%s vanishes", p.name)
		w.ensemble.Net.Power(p.machine, false)
		w.programs = slices.Delete(w.programs, i, i+1)
		p.die()
		w.gone.Go(p.ended.Wait)
		w.stand()
	case 1, 2:
		w.ensemble.Late(p.machine, 2*time.Second)
	case 3:
		w.say("%s closes its session", p.name)
		p.close()
	case 4:
		w.ensemble.Isolate(p.machine, w.machines())
	default:
		w.ensemble.Fault(w.machines())
	}
}

// machines are those of the programs.
func (w *storm) machines() []int {
	var all []int
	for _, p := range w.programs {
		all = append(all, p.machine)
	}
	return all
}

// calm heals everything, and waits until each recipe goes on.
func (w *storm) calm() {
	w.say("calm")
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
			w.breach("not well %v after all is healed: all serve: %v; %s", stormWell, w.ensemble.Serve(), waits)
			return
		}
		w.slowest = max(w.slowest, time.Since(began))
	}
	w.say("well")
}

// tick lets some time go by, and notes whether somebody leads the servers.
func (w *storm) tick() {
	time.Sleep(10 * time.Millisecond)
	if !w.ensemble.Led() {
		w.mu.Lock()
		w.unled = time.Now()
		w.mu.Unlock()
	}
}

// waits says which recipe of which program has not gone on since.
func (w *storm) waits(before map[string]int) string {
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

// sum is how often each recipe has come to its end.
func (w *storm) sum() string {
	sum := map[string]int{}
	for name, n := range w.done {
		_, recipe, _ := strings.Cut(name, " ")
		sum[recipe] += n
	}
	return strings.TrimPrefix(fmt.Sprint(sum), "map")
}

// end ends all programs and judges what they have done.
func (w *storm) end() {
	if w.broken() {
		w.stop()
		w.ensemble.End()
		return
	}
	w.ensemble.Whole()
	w.stop()
	c, err := client.Dial(w.t.Context(), w.ensemble.Addresses(), client.Options{Clock: bubble.Clock(1), Dialer: w.ensemble.Net.Dialer(firstMachine - 1)})
	if err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(10 * time.Second) // sessions that could not be closed expire
	w.judge(c)
	_ = c.Close()
	w.ensemble.End()
}

// stop ends all programs.
func (w *storm) stop() {
	for _, p := range w.programs {
		p.over()
	}
	for _, p := range w.programs {
		p.ended.Wait()
	}
	w.gone.Wait()
}
