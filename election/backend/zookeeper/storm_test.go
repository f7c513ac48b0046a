package zookeeper_test

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/internal/storm"
	"github.com/conclave-project/conclave/internal/storm/machines"
)

// Everything that an election consists of, with nothing replaced: electors, this backend,
// clients, and an ensemble of whole servers. They run on virtual time, each machine with its own
// clock, which is as wrong as clocks may be. Servers lose power and have slow disks, candidates
// vanish, or leave for a while and keep their sessions, connections break and are silent in one
// direction or both, and operators interfere, all at the same time. The test checks what package
// storm says, and that no server ends by itself.
// server ends by itself.
func TestElectionsThroughStorms(t *testing.T) { throughStorms(t, false) }

// The candidates are also members of a group, over the same sessions.
func TestGroupsThroughStorms(t *testing.T) { throughStorms(t, true) }

func throughStorms(t *testing.T, grouped bool) {
	storm.Through(t, 4, func(t *testing.T, seed uint64) storm.Played { return newServersStorm(t, seed, &stormMutant{}, grouped) })
}

// serversStorm is an ensemble and its candidates.
type serversStorm struct {
	*storm.Storm
	t        *testing.T
	mutant   *stormMutant
	ensemble *machines.Ensemble
	last     int // the machine of the newest candidate
}

// newServersStorm starts an ensemble and its candidates.
func newServersStorm(t *testing.T, seed uint64, mutant *stormMutant, grouped bool) *serversStorm {
	w := &serversStorm{Storm: storm.New(seed, grouped), t: t, mutant: mutant, last: 10}
	far := []time.Duration{0, time.Millisecond, 15 * time.Millisecond, w.Lease / 60}[w.Random.IntN(4)]
	if grouped {
		far = min(far, w.Lease/200) // taking a partition takes twenty round trips
	}
	w.ensemble = machines.Start(t, w.Random, machines.Options{Far: far, ServerRate: mutant.serverRate, Say: w.Say, Breach: w.Breach})
	w.whole()
	return w
}

// Play implements storm.Played.
func (w *serversStorm) Play(faults int) {
	w.Rage(faults, w.fault, w.whole, w.ensemble.Serve)
	w.ensemble.Net.Heal()
	w.End()
	w.ensemble.End()
	w.Judge()
}

// whole heals everything.
func (w *serversStorm) whole() {
	w.ensemble.Whole()
	for len(w.Running) < storm.Candidates {
		w.stand()
	}
}

// stand starts a candidate on a machine of its own.
func (w *serversStorm) stand() {
	w.last++
	c := w.Candidate(w.last)
	queued, err := zookeeper.New(w.ensemble.Addresses(), zookeeper.Options{Client: client.Options{
		Dialer: w.ensemble.Net.Dialer(c.Machine), Clock: c.Clock, Seed: w.Random.Uint64() | 1, OnEvent: func(e client.Event) {
			if e.Kind == client.EventRequest {
				c.Answered()
			}
		}}})
	if err != nil {
		w.t.Fatal(err)
	}
	backend := election.Backend(queued)
	if w.mutant.backend != nil {
		backend = w.mutant.backend(c.Machine, queued)
	}
	if err := c.Stand(backend, queued.Close); err != nil {
		w.t.Fatal(err)
	}
}

// fault breaks something, or heals.
func (w *serversStorm) fault() {
	var candidates []int
	for _, c := range w.Running {
		candidates = append(candidates, c.Machine)
	}
	switch w.Random.IntN(18) {
	case 0:
		w.ensemble.Isolate(w.LeaderOrAny(4).Machine, candidates)
	case 1, 2:
		w.ensemble.Late(w.LeaderOrAny(4).Machine, w.Lease)
	case 3:
		c := w.Any()
		w.ensemble.Net.Power(c.Machine, false)
		w.Vanish(c)
		w.stand()
	case 4:
		w.Any().Leave()
	case 5, 6, 7:
		w.Operate()
	default:
		w.ensemble.Fault(candidates)
	}
}
