package zookeeper_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/storm"
	"github.com/conclave-project/conclave/internal/vfs"
)

// All that an election takes, with nothing put in its place: electors, this backend, clients,
// and an ensemble of whole servers. They run on virtual time, each machine by a clock of its own,
// as wrong as clocks may be. Servers lose their power and have slow disks, candidates vanish, or
// leave for a while and keep their sessions, connections break and are silent in one direction or
// both, operators interfere, all at one time. Judged is what package storm says, and that no
// server ends by itself.
func TestElectionsThroughStorms(t *testing.T) { throughStorms(t, false) }

// The candidates are members of a group as well, over the same sessions.
func TestGroupsThroughStorms(t *testing.T) { throughStorms(t, true) }

func throughStorms(t *testing.T, grouped bool) {
	storm.Through(t, 4, func(t *testing.T, seed uint64) storm.Played { return newServersStorm(t, seed, &stormMutant{}, grouped) })
}

// Play implements storm.Played.
func (w *serversStorm) Play(faults int) {
	w.Rage(faults, w.fault, w.whole, w.serve)
	w.net.Heal()
	w.End()
	for _, m := range w.servers {
		w.halt(m, false)
	}
	w.Judge()
}

const stormTick = 200 * time.Millisecond

// serversStorm is an ensemble and its candidates.
type serversStorm struct {
	*storm.Storm
	t         *testing.T
	mutant    *stormMutant
	net       *bubble.Net
	config    *ensemble.Config
	servers   []*stormServer
	last      int // machine of the newest candidate
	syncLimit int // ticks
}

// newServersStorm starts an ensemble and its candidates.
func newServersStorm(t *testing.T, seed uint64, mutant *stormMutant, grouped bool) *serversStorm {
	w := &serversStorm{Storm: storm.New(seed, grouped), t: t, mutant: mutant, last: 10}
	far := []time.Duration{0, time.Millisecond, 15 * time.Millisecond, w.Lease / 60}[w.Random.IntN(4)]
	if grouped {
		far = min(far, w.Lease/200) // to take a partition are twenty ways there and back
	}
	w.net = bubble.NewNet(far)
	w.syncLimit = 5 + w.Random.IntN(10)
	var lines []string
	votes, observes := []int{3, 3, 5}[w.Random.IntN(3)], w.Random.IntN(2)
	for id := 1; id <= votes+observes; id++ {
		host, role := bubble.Host(id), "participant"
		if id > votes {
			role = "observer"
		}
		lines = append(lines, fmt.Sprintf("server.%d=%s:2888:3888:%s;%s:2181", id, host, role, host))
		w.servers = append(w.servers, &stormServer{id: id, observes: id > votes, fs: vfs.NewMem(), clock: storm.Clock(w.Random)})
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
func (w *serversStorm) whole() {
	w.net.Heal()
	for _, s := range w.servers {
		w.boot(s)
	}
	for len(w.Running) < storm.Candidates {
		w.stand()
	}
}

// serve reports whether all servers serve.
func (w *serversStorm) serve() bool {
	for _, m := range w.servers {
		if !m.s.Serves() {
			return false
		}
	}
	return true
}
