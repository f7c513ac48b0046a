//go:build linux && chaos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
)

const (
	// healedWithin limits the time from the end of all faults until every server serves and
	// clients write.
	healedWithin = 20 * time.Second

	// calmEvery is the number of faults after which everything is healed and checked.
	calmEvery = 12

	// together is how many faults may exist at the same time.
	together = 2

	// misfits is how many impossible faults, on average, cause an existing one to be
	// healed.
	misfits = 10
)

// A storm is an ensemble, its clients, and the current faults. It belongs to the test's
// goroutine.
type storm struct {
	t      *testing.T
	ctx    context.Context
	e      *servers.Ensemble
	load   *workload.Load
	random *rand.Rand
	faults []fault
	roles  *roles // nil if the configuration does not change

	touched map[*servers.Member]bool // the members with a fault
	mayEnd  map[*servers.Member]bool
	on      []ongoing
	counts  map[string]int
	done    int           // faults so far
	slowest time.Duration // longest time until everything was well again
	broken  int
}

// An ongoing fault must be healed.
type ongoing struct {
	name, what string
	began      time.Time
	heal       func() error
}

// There are two storms: one with proxies, where links can be partitioned, and one where the
// configuration changes, which is not possible with proxies.
func TestChaos(t *testing.T) {
	minutes, participants, seed := number(t, "CHAOS_MINUTES", 30), number(t, "CHAOS_SERVERS", 5), number(t, "CHAOS_SEED", int64(rand.Uint32()))
	t.Logf("CHAOS_MINUTES=%d CHAOS_SERVERS=%d CHAOS_SEED=%d", minutes, participants, seed)
	third := time.Duration(minutes) * time.Minute / 3
	t.Run("links", func(t *testing.T) {
		s := newStorm(t, seed, onLinks)
		s.start(int(participants), servers.EnsembleOptions{Proxied: true})
		s.rage(2 * third)
	})
	t.Run("reconfigs", func(t *testing.T) {
		s := newStorm(t, seed, onMembers)
		s.start(int(participants), servers.EnsembleOptions{Reconfig: true, Config: []string{servers.SuperDigest}})
		s.roles = newRoles(s.e)
		t.Cleanup(func() { <-s.roles.underWay })
		s.rage(third)
	})
}

func newStorm(t *testing.T, seed int64, more []fault) *storm {
	return &storm{t: t, ctx: t.Context(), random: rand.New(rand.NewPCG(uint64(seed), 1)), counts: map[string]int{},
		faults:  slices.Concat(everywhere, more),
		touched: map[*servers.Member]bool{}, mayEnd: map[*servers.Member]bool{}}
}

// rage causes and heals faults for the given time, and checks the result.
func (s *storm) rage(lasting time.Duration) {
	began := time.Now()
	for time.Since(began) < lasting && !s.t.Failed() {
		s.next()
		s.watch()
		if s.done%calmEvery == calmEvery-1 {
			s.calm()
		}
	}
	s.calm()
	s.restore()
	s.finish(began)
	// One fault every six seconds, less a few for the end of a run.
	if goal := int(lasting/(6*time.Second)) - 5; s.done < goal && !s.t.Failed() {
		s.t.Errorf("%d faults, at least %d are asked for", s.done, goal)
	}
}

// number reads a number from an environment variable.
func number(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: say a number", name, text)
	}
	return n
}

// start makes an ensemble in which everything can break, and starts a load.
func (s *storm) start(participants int, o servers.EnsembleOptions) {
	s.t.Helper()
	kind, err := servers.Chosen("CHAOS_KIND")
	s.must(err)
	o.Kinds, o.Observers = slices.Repeat([]servers.Kind{kind}, participants+1), []int{participants + 1}
	o.Config = append(o.Config, "tickTime=250", "initLimit=20", "syncLimit=4", "snapCount=3000", "preAllocSize=1024")
	s.e, err = servers.NewEnsemble(s.ctx, o)
	s.must(err)
	for _, m := range s.e.Members {
		m.Disk = &servers.Disk{}
		s.must(servers.MountDisk(m.DataDir(), diskBytes))
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("%s\n%s", s.e.Describe(), s.e.LogTails(5000))
		}
		for _, m := range s.e.Members {
			s.must(m.Kill())
			s.must(servers.UnmountDisk(m.DataDir()))
		}
		s.must(s.e.Close())
	})
	s.must(s.e.Start(s.ctx))
	s.load, err = workload.Start(s.ctx, workload.Options{Servers: s.e.Addrs(), Writers: 4, Readers: 2, Contenders: 3,
		Pause: 3 * time.Millisecond, Kept: 2000, SessionTimeout: 4 * time.Second, CallTimeout: 20 * time.Second})
	s.must(err)
	s.t.Cleanup(s.load.Close)
}

func (s *storm) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *storm) breach(format string, args ...any) {
	s.t.Helper()
	s.broken++
	s.t.Errorf(format, args...)
}

// sleep lets a fault last for a time.
func (s *storm) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

// next begins a fault, waits, and heals the oldest fault if there are enough.
func (s *storm) next() {
	f := s.choose()
	what, heal := f.begin(s)
	if what == "" {
		s.sleep(50 * time.Millisecond) // there may be a leader in a moment
		if len(s.on) > 0 && s.random.IntN(misfits) == 0 {
			s.heal() // with all servers down, no other fault may ever be possible
		}
		return
	}
	s.done++
	s.counts[f.name]++
	s.t.Logf("%4d %s: %s", s.done, f.name, what)
	s.on = append(s.on, ongoing{f.name, what, time.Now(), heal})
	// From a moment to longer than a server may be silent.
	s.sleep(time.Duration(100+s.random.IntN(100)*s.random.IntN(60)) * time.Millisecond)
	s.watch()
	for len(s.on) >= together || len(s.on) > 0 && s.random.IntN(2) == 0 {
		s.heal()
	}
}

// choose draws a fault.
func (s *storm) choose() fault {
	sum := 0
	for _, f := range s.faults {
		sum += f.share
	}
	n := s.random.IntN(sum)
	for _, f := range s.faults {
		if n -= f.share; n < 0 {
			return f
		}
	}
	return s.faults[0]
}

// heal ends the oldest fault.
func (s *storm) heal() {
	s.must(s.on[0].heal())
	s.on = s.on[1:]
	if len(s.on) == 0 {
		clear(s.touched)
	}
}

// watch looks for servers that have ended by themselves.
func (s *storm) watch() {
	for _, m := range s.e.Members {
		p := m.Server()
		if p == nil || s.mayEnd[m] {
			continue
		}
		select {
		case <-p.Ended():
			s.breach("server %d has ended by itself: %v\n%s", m.ID, p.ExitError(), m.LogTail(3000))
		default:
		}
	}
}

// calm heals everything, and checks chaos-X3.
func (s *storm) calm() {
	s.watch()
	for len(s.on) > 0 {
		s.heal()
	}
	if s.e.Network != nil {
		s.e.Network.Heal()
	}
	s.watch()
	if s.t.Failed() {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, healedWithin)
	defer cancel()
	members, err := s.inForce(ctx)
	if err != nil {
		s.breach("not well %v after all was healed: %v; %s", time.Since(began).Round(time.Second), err, s.e.Describe())
		return
	}
	for _, m := range s.e.Members { // including removed servers: they follow, and can be added again
		if err := m.AwaitServing(ctx); err != nil {
			s.breach("not well %v after all was healed: %v; %s", time.Since(began).Round(time.Second), err, s.e.Describe())
			return
		}
	}
	if err := s.load.Await(ctx, 100); err != nil {
		s.breach("not well %v after all was healed: %v; %s", time.Since(began).Round(time.Second), err, s.e.Describe())
		return
	}
	for _, m := range members {
		var metrics map[string]float64
		awaittest.Poll(ctx, func() bool { // a leader that was paused served, and does not know yet about the new one
			metrics, err = servers.Metrics(m.Addr)
			return err == nil
		})
		if err != nil {
			s.breach("not well %v after all was healed: %v; %s", time.Since(began).Round(time.Second), err, s.e.Describe())
			return
		}
		if n := metrics["zk_digest_mismatches_count"]; n != 0 {
			s.breach("server %d has counted %v mismatches of the digest", m.ID, n)
		}
	}
	s.slowest = max(s.slowest, time.Since(began))
}

// finish ends the load and checks the result.
func (s *storm) finish(began time.Time) {
	s.load.Finish()
	figures := s.load.Figures()
	var names []string
	for name, n := range s.counts {
		names = append(names, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(names)
	s.t.Logf("%d faults in %v: %s", s.done, time.Since(began).Round(time.Second), strings.Join(names, ", "))
	s.t.Logf("%v; slowest to be well again %v", figures, s.slowest.Round(time.Millisecond))
	breaches, err := s.load.Verify(s.ctx, strings.Split(s.e.Addrs(), ","))
	s.must(err)
	for _, breach := range breaches {
		s.breach("%s", breach)
	}
	s.must(s.load.Contended())
	s.histories()
	s.readLogs()
}

// readLogs looks for messages about broken invariants in the servers' logs.
func (s *storm) readLogs() {
	for _, m := range s.e.Members {
		log := m.Log()
		for _, sign := range []string{"panic:", "fatal error:", "runtime error", "invariant", "DATA RACE"} {
			if at := strings.Index(log, sign); at >= 0 {
				s.breach("server %d: %q in its log: %s", m.ID, sign, log[at:min(len(log), at+1500)])
			}
		}
	}
}
