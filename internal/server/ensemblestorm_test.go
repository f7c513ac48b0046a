package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/storm"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Whole servers, with everything that they have besides their machines: goroutines, connections
// for votes, links, ports, and what they save of a configuration. They run on virtual time, where
// a minute takes as long as the work done in it. Machines lose power and are paused, connections
// break and are silent in one direction or both, servers get other roles and other ports, all at
// the same time. Judged is:
//
//   - no two servers lead in one epoch, and none ends by itself;
//   - when all is whole again every server serves within 20 s, with one leader, including those
//     that are out of the configuration;
//   - the configuration that was requested last is in force on all of them;
//   - each of them has everything that was acknowledged, and no ephemeral znode whose session is
//     gone;
//   - they leave their connections as they are from then on;
//   - what programs see, see program.
func TestEnsemblesThroughStorms(t *testing.T) {
	few := uint64(5)
	if underRace {
		few = 2
	}
	storm.Through(t, few, func(t *testing.T, seed uint64) storm.Played { return newStorm(t, seed, nil) })
}

// TestStormsFindMutants puts bugs around the servers, which do not know of them.
func TestStormsFindMutants(t *testing.T) {
	if underRace {
		return // this test is about seeds, not about goroutines
	}
	for _, mutant := range stormMutants {
		t.Run(mutant.name, func(t *testing.T) {
			storm.Finds(t, mutant.what, 60, func(t *testing.T, seed uint64) storm.Played { return newStorm(t, seed, mutant.put) })
		})
	}
}

const (
	stormMachines = 6
	clientMachine = 100 // the machine of the clients

	// wellWithin is how long it may take until all is well again.
	wellWithin = 20 * time.Second
)

// ensembleStorm is an ensemble and what is broken at present.
type ensembleStorm struct {
	storm.Story
	t        *testing.T
	random   *rand.Rand
	clock    clock.Clock
	net      *bubble.Net
	machines []*machine // by number, from 1
	programs []*program
	mutant   stormMutant
	plan     roles         // what was requested last
	anchor   int           // this server stays where it is until all is well again
	decided  chan struct{} // closed when the plan is in force
	stopped  context.Context
	slowest  time.Duration // until all was well again

	mu           sync.Mutex
	leaders      map[uint32]int
	acknowledged []string
}

// newStorm starts an ensemble, which ends with the test.
func newStorm(t *testing.T, seed uint64, mutant stormMutant) *ensembleStorm {
	w := &ensembleStorm{Story: storm.Story{Began: time.Now()}, t: t, random: rand.New(rand.NewPCG(seed, 1)), mutant: mutant, clock: bubble.Clock(1),
		decided: make(chan struct{}), leaders: map[uint32]int{}}
	w.net = bubble.NewNet([]time.Duration{0, 0, 3 * time.Millisecond, 40 * time.Millisecond}[w.random.IntN(4)])
	close(w.decided)
	for id := 1; id <= stormMachines; id++ {
		w.plan[id] = post{is: roleVotes}
	}
	w.plan[stormMachines].is = roleObserves
	w.anchor = w.plan.voting(w.random)
	config, err := ensemble.Parse(strings.Join(w.plan.lines(), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(context.Background())
	w.stopped = stopped
	var clients sync.WaitGroup
	w.machines = append(w.machines, nil)
	for id := 1; id <= stormMachines; id++ {
		w.machines = append(w.machines, &machine{id: id, fs: vfs.NewMem(), inForce: config, own: *config.Member(quorum.ID(id))})
	}
	t.Cleanup(func() {
		stop()
		w.net.Heal()
		clients.Wait()
		<-w.decided
		for _, m := range w.machines[1:] {
			w.halt(m)
		}
	})
	for _, m := range w.machines[1:] {
		w.boot(m)
	}
	clients.Go(w.write)
	for i := range stormPrograms {
		w.programs = append(w.programs, &program{w: w, machine: programMachine + i, quiet: i == 0, random: rand.New(rand.NewPCG(w.random.Uint64(), 2))})
	}
	for _, p := range w.programs {
		clients.Go(p.run)
	}
	return w
}

// Play breaks and heals, and checks from time to time whether all is well. It implements
// storm.Played.
func (w *ensembleStorm) Play(faults int) {
	for i := range faults {
		w.fault()
		time.Sleep(time.Duration(w.random.IntN(300)*w.random.IntN(10)) * time.Millisecond / 4)
		if i%12 == 11 || i == faults-1 {
			w.calm()
		}
		if w.Why() != "" {
			return
		}
	}
}

// Said returns what has happened last, and the state of the servers.
func (w *ensembleStorm) Said() string { return w.Story.Said() + "\n" + w.describe() }

// Sum reports how much a storm has covered.
func (w *ensembleStorm) Sum() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%v, %d writes acknowledged, slowest to be well again %v", time.Since(w.Began).Round(time.Second),
		len(w.acknowledged), w.slowest)
}

// leads checks each server that begins to lead.
func (w *ensembleStorm) leads(id int, role Role) {
	if role.Mode != ModeLeader {
		return
	}
	w.mu.Lock()
	other, known := w.leaders[role.Epoch]
	w.leaders[role.Epoch] = id
	w.mu.Unlock()
	if known && other != id {
		w.Breach("servers %d and %d lead in epoch %d", other, id, role.Epoch)
	}
}

// calm heals everything, and waits until all is well.
func (w *ensembleStorm) calm() {
	w.Say("calm")
	w.net.Heal()
	for _, m := range w.machines[1:] {
		w.boot(m)
	}
	began, why := time.Now(), ""
	for {
		if why = w.ill(); why == "" {
			w.Say("well after %v", time.Since(began))
			w.slowest = max(w.slowest, time.Since(began))
			w.anchor = w.plan.voting(w.random)
			w.rest()
			return
		}
		if time.Since(began) > wellWithin || w.Why() != "" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.Breach("not well %v after all is healed: %s", wellWithin, why)
}

// rest checks that servers which are well leave their connections as they are, and that
// sessions live. Clients dial, too.
func (w *ensembleStorm) rest() {
	const most = 20
	lasting := 2 * time.Second
	if w.random.IntN(4) == 0 {
		lasting = 12 * time.Second // twice the longest timeout
	}
	live := w.connected()
	before := w.net.Dialed()
	time.Sleep(lasting)
	if n := w.net.Dialed() - before; n > most {
		w.Breach("%d connections were dialed within %v while all was well", n, lasting)
	}
	for _, session := range live {
		if errors.Is(session.Err(), zk.ErrSessionExpired) {
			w.Breach("session %v of %v has expired while all was well", session.SessionID(), session.Timeout())
		}
	}
}

// ill returns what is not well yet, "" for nothing.
func (w *ensembleStorm) ill() string {
	select {
	case <-w.decided:
	default:
		return fmt.Sprintf("reconfig %v is not in force", w.plan)
	}
	leader := w.leader()
	if leader == nil {
		return "nobody leads"
	}
	w.mu.Lock()
	acknowledged := w.acknowledged
	w.mu.Unlock()
	epoch, why := leader.s.Role().Epoch, ""
	for _, m := range w.machines[1:] {
		if m.s == nil {
			return fmt.Sprintf("server %d does not start", m.id)
		}
		if role := m.s.Role(); !m.s.Serves() || role.Epoch != epoch {
			return fmt.Sprintf("server %d is %+v, and %d leads epoch %d", m.id, role, leader.id, epoch)
		}
		m.s.inspect(func(r *replica.Replica) {
			if is := rolesOf(r.Config()); is != w.plan {
				why = fmt.Sprintf("server %d goes by %v, not by %v", m.id, is, w.plan)
				return
			}
			for ; m.found < len(acknowledged); m.found++ {
				if _, ok := r.Tree().Find(acknowledged[m.found]); !ok {
					why = fmt.Sprintf("server %d lacks %s", m.id, acknowledged[m.found])
					return
				}
			}
			if owned := w.illOwned(r); owned != "" {
				why = fmt.Sprintf("server %d %s", m.id, owned)
			}
		})
		if why != "" {
			return why
		}
	}
	return ""
}

func (w *ensembleStorm) describe() string {
	text := ""
	for _, m := range w.machines[1:] {
		if m.s == nil {
			text += fmt.Sprintf("server %d is down\n", m.id)
			continue
		}
		m.s.inspect(func(r *replica.Replica) {
			text += fmt.Sprintf("server %d: %+v, %v version %x, at %v\n", m.id, m.s.Role(), rolesOf(r.Config()), r.Config().Version, r.Tree().LastZxid())
		})
	}
	return text
}
