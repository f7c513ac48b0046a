package zookeeper_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/vfs"
)

var (
	stormSeed   = flag.Uint64("storm", 1, "the seed of the first storm")
	storms      = flag.Uint64("storms", 4, "how many storms, of seeds one after the other")
	stormFaults = flag.Int("faults", 80, "how many faults a storm has")
	stormPrint  = flag.Bool("print", false, "print what the storms do")
)

// All that an election takes, with nothing put in its place: electors, this backend, clients,
// and an ensemble of whole servers. They run on virtual time, each machine by a clock of its own,
// as wrong as clocks may be. Servers lose their power and have slow disks, candidates vanish, or
// leave for a while and keep their sessions, connections break and are silent in one direction or
// both, operators interfere, all at one time.
// Every leadership is held to the last moment of its lease. Judged is:
//
//   - no two candidates lead at one time, and tokens grow;
//   - the servers take no leadership from a candidate before its lease is over;
//   - no server ends by itself;
//   - when all is whole again somebody leads within 20 s.
func TestElectionsThroughStorms(t *testing.T) { throughStorms(t, false) }

// The candidates are members of a group as well, over the same sessions. Its elections are judged
// as the other one is; and when all is whole again each partition has an owner within 20 s, no
// member has two more than another, and no member has ended by itself.
func TestGroupsThroughStorms(t *testing.T) { throughStorms(t, true) }

func throughStorms(t *testing.T, grouped bool) {
	for seed := *stormSeed; seed < *stormSeed+*storms; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStorm(t, seed, &stormMutant{}, grouped)
				w.play(t)
			})
		})
	}
}

func (w *storm) play(t *testing.T) {
	w.rage(*stormFaults)
	w.end()
	w.judge()
	if w.why != "" {
		t.Fatalf("%s\n%s", w.why, strings.Join(w.said[max(0, len(w.said)-80):], "\n"))
	}
	t.Logf("%d servers, a lease of %v: %d faults in %v, %d leaderships, %d of them expired, slowest to be well again %v",
		len(w.servers), w.lease, *stormFaults, time.Since(w.began).Round(time.Second), len(w.spans), w.expired, w.slowest)
}

const (
	stormTick       = 200 * time.Millisecond
	stormCandidates = 4
	stormWell       = 20 * time.Second // until somebody leads again, and partitions are shared
	stormElection   = "storm"
	stormGroup      = "group"
	stormPartitions = 5
)

// storm is an ensemble, its candidates, and what is broken at present.
type storm struct {
	t         *testing.T
	mutant    *stormMutant
	grouped   bool
	random    *rand.Rand // of the goroutine that breaks
	net       *bubble.Net
	config    *ensemble.Config
	servers   []*stormServer
	running   []*stormCandidate
	last      int // machine of the newest candidate
	lease     time.Duration
	syncLimit int // ticks
	began     time.Time
	slowest   time.Duration
	quiet     atomic.Bool    // disks are fast
	gone      sync.WaitGroup // candidates that have vanished, and what operators do

	mu      sync.Mutex
	said    []string
	why     string
	spans   []*span
	expired int
}

// span is a leadership.
type span struct {
	of, who  string
	token    election.Token
	from, to time.Time // to is zero while it lasts
}

// newStorm starts an ensemble and its candidates.
func newStorm(t *testing.T, seed uint64, mutant *stormMutant, grouped bool) *storm {
	w := &storm{t: t, mutant: mutant, grouped: grouped, random: rand.New(rand.NewPCG(seed, 2)), began: time.Now(), last: 10}
	w.lease = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}[w.random.IntN(3)]
	far := []time.Duration{0, time.Millisecond, 15 * time.Millisecond, w.lease / 60}[w.random.IntN(4)]
	if grouped {
		far = min(far, w.lease/200) // to take a partition are twenty ways there and back
	}
	w.net = bubble.NewNet(far)
	w.syncLimit = 5 + w.random.IntN(10)
	var lines []string
	votes, observes := []int{3, 3, 5}[w.random.IntN(3)], w.random.IntN(2)
	for id := 1; id <= votes+observes; id++ {
		host, role := bubble.Host(id), "participant"
		if id > votes {
			role = "observer"
		}
		lines = append(lines, fmt.Sprintf("server.%d=%s:2888:3888:%s;%s:2181", id, host, role, host))
		w.servers = append(w.servers, &stormServer{id: id, observes: id > votes, fs: vfs.NewMem(), clock: stormClock(w.random)})
		if mutant.serverRate > 0 {
			w.servers[len(w.servers)-1].clock = bubble.Clock(mutant.serverRate)
		}
	}
	var err error
	if w.config, err = ensemble.Parse(strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
	w.whole()
	return w
}

// whole heals everything.
func (w *storm) whole() {
	w.net.Heal()
	for _, s := range w.servers {
		w.boot(s)
	}
	for len(w.running) < stormCandidates {
		w.stand()
	}
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

// lead leads for a while, or to the very last moment.
func (w *storm) lead(c *stormCandidate, of string) func(context.Context, election.Leadership) error {
	return func(ctx context.Context, lead election.Leadership) error {
		s := w.begin(of, lead)
		defer w.over(s)
		enough := time.NewTimer(c.awhile(20 * w.lease))
		defer enough.Stop()
		for ctx.Err() == nil {
			select {
			case <-enough.C:
				if of == stormElection || !w.quiet.Load() { // else the group stays as it is
					return nil
				}
			case <-c.dead:
				return nil
			case <-ctx.Done():
			}
		}
		var lost *election.LostError
		if errors.As(context.Cause(ctx), &lost) && lost.Reason == election.ReasonTaken && lead.Remaining() > 0 {
			w.breach("the servers took from %s what was its own for another %v: %v", s.who, lead.Remaining(), lost)
		}
		if lost == nil || lost.Reason != election.ReasonExpired {
			return nil
		}
		w.mu.Lock()
		w.expired++
		w.mu.Unlock()
		for lead.Remaining() > 0 {
			select {
			case <-time.After(lead.Remaining()/2 + time.Microsecond):
			case <-c.dead:
				return nil
			}
		}
		return nil
	}
}

func (w *storm) begin(of string, lead election.Leadership) *span {
	s := &span{of: of, who: lead.ID(), token: lead.Token(), from: time.Now()}
	w.mu.Lock()
	var beside *span
	for _, other := range w.spans {
		if other.of == of && other.to.IsZero() {
			beside = other
		}
	}
	w.spans = append(w.spans, s)
	w.mu.Unlock()
	w.say("%s leads %s with token %d", s.who, of, s.token)
	if beside != nil {
		w.breach("%s (token %d) leads %s beside %s (token %d)", s.who, s.token, of, beside.who, beside.token)
	}
	return s
}

func (w *storm) over(s *span) {
	w.mu.Lock()
	s.to = time.Now()
	w.mu.Unlock()
	w.say("%s leads %s no more", s.who, s.of)
}

// judge looks at all leaderships once they are over.
func (w *storm) judge() {
	slices.SortStableFunc(w.spans, func(a, b *span) int { return cmp.Or(cmp.Compare(a.of, b.of), a.from.Compare(b.from)) })
	for i, after := range w.spans {
		if i > 0 && after.of == w.spans[i-1].of && after.token <= w.spans[i-1].token {
			w.breach("%s has token %d of %s after %d of %s", after.who, after.token, after.of, w.spans[i-1].token, w.spans[i-1].who)
		}
	}
	if len(w.spans) == 0 {
		w.breach("nobody has led")
	}
}

// rage breaks and heals, and looks now and then whether all is well.
func (w *storm) rage(faults int) {
	for i := range faults {
		w.fault()
		time.Sleep(time.Duration(w.random.Float64() * w.random.Float64() * 2 * float64(w.lease)))
		if i%10 == 9 || i == faults-1 {
			w.calm()
		}
		if w.broken() {
			return
		}
	}
}

// calm heals everything, and waits until somebody leads.
func (w *storm) calm() {
	w.say("calm")
	w.quiet.Store(true)
	defer w.quiet.Store(false)
	w.whole()
	for began := time.Now(); !w.isWell(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > stormWell {
			w.breach("not well %v after all is healed: %s", stormWell, w.state())
			return
		}
		w.slowest = max(w.slowest, time.Since(began))
	}
	w.say("well")
}

// isWell reports whether all serve, somebody leads, and the partitions are shared evenly.
func (w *storm) isWell() bool {
	for _, m := range w.servers {
		if !m.s.Serves() {
			return false
		}
	}
	leads, owned := w.present()
	if !w.grouped {
		return leads != ""
	}
	sum, least, most := 0, stormPartitions, 0
	for _, c := range w.running {
		n := len(owned[c.elector.ID()])
		sum, least, most = sum+n, min(least, n), max(most, n)
	}
	return leads != "" && sum == stormPartitions && most-least <= 1
}

// present returns who leads, and who owns what.
func (w *storm) present() (leads string, owned map[string][]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	owned = make(map[string][]string)
	for _, s := range w.spans {
		switch {
		case !s.to.IsZero():
		case s.of == stormElection:
			leads = s.who
		default:
			owned[s.who] = append(owned[s.who], s.of)
		}
	}
	return leads, owned
}

// state is who does what at present.
func (w *storm) state() string {
	leads, owned := w.present()
	text := fmt.Sprintf("%q leads", leads)
	for _, c := range w.running {
		text += fmt.Sprintf(", %s owns %q", c.elector.ID(), owned[c.elector.ID()])
	}
	for _, m := range w.servers {
		if !m.s.Serves() {
			text += fmt.Sprintf(", server %d does not serve", m.id)
		}
	}
	return text
}

// end ends all candidates and servers.
func (w *storm) end() {
	w.net.Heal()
	for _, c := range w.running {
		w.gone.Go(c.vanish)
	}
	w.gone.Wait()
	for _, m := range w.servers {
		w.halt(m, false)
	}
}
