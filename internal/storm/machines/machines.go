// Package machines is for tests on the virtual time of a bubble of testing/synctest. It runs an
// ensemble of whole servers, each on a machine of its own, and breaks it.
//
// A test calls Fault again and again; each call makes one random fault. Options.Say receives what
// happens, and Options.Breach what is wrong. What always holds:
//
//	machines-S1  After Whole, all servers run on fast disks, and nothing is cut.
//	machines-S2  A server ends only when it is told to; otherwise the test is told.
//
// The package knows nothing about what clients do.
package machines

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
)

// Tick is the tickTime of the servers.
const Tick = 200 * time.Millisecond

// Options describe an ensemble.
type Options struct {
	Far        time.Duration                    // from one machine to another
	ServerRate float64                          // of the servers' clocks; 0 is up to two and a half per cent wrong
	Say        func(format string, args ...any) // what happens
	Breach     func(format string, args ...any) // what is wrong
}

// Ensemble is three or five servers, and perhaps an observer. The goroutine that causes the faults
// owns it, except for Net.
type Ensemble struct {
	Net *bubble.Net

	o         Options
	t         testing.TB
	random    *rand.Rand
	config    *ensemble.Config
	all       []*machine
	syncLimit int         // in ticks
	quiet     atomic.Bool // disks are fast
}

// machine is where one server runs.
type machine struct {
	id       int
	observes bool // the server has no vote
	fs       *vfs.Mem
	clock    clock.Clock
	s        *server.Server // nil while it does not run
	stop     func() error
}

// Start starts an ensemble, which random determines.
func Start(t testing.TB, random *rand.Rand, o Options) *Ensemble {
	e := &Ensemble{Net: bubble.NewNet(o.Far), o: o, t: t, random: random, syncLimit: 5 + random.IntN(10)}
	var lines []string
	votes, observes := []int{3, 3, 5}[random.IntN(3)], random.IntN(2)
	for id := 1; id <= votes+observes; id++ {
		host, role := bubble.Host(id), "participant"
		if id > votes {
			role = "observer"
		}
		lines = append(lines, fmt.Sprintf("server.%d=%s:2888:3888:%s;%s:2181", id, host, role, host))
		its := bubble.DriftingClock(random)
		if o.ServerRate > 0 {
			its = bubble.Clock(o.ServerRate)
		}
		e.all = append(e.all, &machine{id: id, observes: id > votes, fs: vfs.NewMem(), clock: its})
	}
	var err error
	if e.config, err = ensemble.Parse(strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
	e.Whole()
	return e
}

// Addresses returns the addresses of the servers, as clients take them.
func (e *Ensemble) Addresses() string {
	hosts := make([]string, len(e.all))
	for i, m := range e.all {
		hosts[i] = bubble.Host(m.id) + ":2181"
	}
	return strings.Join(hosts, ",")
}

// Len returns the number of servers. Their machines are numbered from 1.
func (e *Ensemble) Len() int { return len(e.all) }

// Whole heals everything, and keeps disks fast until the next fault.
func (e *Ensemble) Whole() {
	e.quiet.Store(true)
	e.Net.Heal()
	for _, m := range e.all {
		e.boot(m)
	}
}

// Serve reports whether all servers serve.
func (e *Ensemble) Serve() bool {
	return !slices.ContainsFunc(e.all, func(m *machine) bool { return m.s == nil || !m.s.Serves() })
}

// Led reports whether a server leads the others.
func (e *Ensemble) Led() bool {
	return slices.ContainsFunc(e.all, func(m *machine) bool { return m.s != nil && m.s.Leads() })
}

// End ends all servers.
func (e *Ensemble) End() {
	e.Net.Heal()
	for _, m := range e.all {
		e.halt(m, false)
	}
}

// Fault breaks or heals something: a server, or the network between servers and others, which are
// machines too.
func (e *Ensemble) Fault(others []int) {
	e.quiet.Store(false)
	machines := e.with(others)
	a, b := machines[e.random.IntN(len(machines))], machines[e.random.IntN(len(machines))]
	at := e.all[e.random.IntN(len(e.all))]
	switch e.random.IntN(12) {
	case 0, 1:
		if i := slices.IndexFunc(e.all, func(m *machine) bool { return m.s != nil && m.s.Leads() }); i >= 0 {
			at = e.all[i]
		}
		e.o.Say("kill server %d", at.id)
		e.halt(at, true)
	case 2:
		e.o.Say("stop server %d", at.id)
		e.halt(at, e.random.IntN(3) > 0)
	case 3, 4:
		e.o.Say("start all")
		for _, m := range e.all {
			e.boot(m)
		}
	case 5:
		e.o.Say("reset %d and %d", a, b)
		e.Net.Reset(func(from, to int) bool { return from == a && to == b || from == b && to == a })
	case 6:
		if e.random.IntN(2) == 0 {
			e.split(machines)
			return
		}
		e.o.Say("cut %d from %d", a, b)
		e.Net.Cut(a, b, true)
	case 7, 8, 9:
		e.Isolate(a, others)
	default:
		e.o.Say("heal")
		e.Net.Heal()
	}
}

// with returns all machines, including the others.
func (e *Ensemble) with(others []int) []int {
	machines := slices.Clone(others)
	for _, m := range e.all {
		machines = append(machines, m.id)
	}
	return machines
}

// Isolate cuts a machine from all servers and from all others.
func (e *Ensemble) Isolate(one int, others []int) {
	e.quiet.Store(false)
	e.o.Say("isolate %d", one)
	for _, m := range e.with(others) {
		e.Net.Cut(one, m, true)
		e.Net.Cut(m, one, true)
	}
}

// split divides the machines into two parts.
func (e *Ensemble) split(machines []int) {
	var left []int
	for _, m := range machines {
		if e.random.IntN(2) == 0 {
			left = append(left, m)
		}
	}
	e.o.Say("%v on one side, of %v", left, machines)
	for _, a := range machines {
		for _, b := range machines {
			if slices.Contains(left, a) != slices.Contains(left, b) {
				e.Net.Cut(a, b, true)
			}
		}
	}
}

// Late makes the answers to a machine come late, while nothing after them gets through to the
// servers, so what the machine then knows is old. Late takes up to as long as limit.
func (e *Ensemble) Late(one int, limit time.Duration) {
	e.quiet.Store(false)
	cut := func(from, to bool) {
		for _, m := range e.all {
			e.Net.Cut(m.id, one, to)
			e.Net.Cut(one, m.id, from)
		}
	}
	some := func() { time.Sleep(time.Duration(e.random.Float64() * float64(limit) / 2)) }
	e.o.Say("answers to %d come late", one)
	cut(false, true)
	some()
	cut(true, true)
	some()
	cut(true, false)
	e.o.Say("answers to %d come now, and it cannot ask", one)
}

// boot starts the server of a machine.
func (e *Ensemble) boot(m *machine) {
	if m.s != nil {
		return
	}
	e.Net.Power(m.id, true)
	clients, err := e.Net.Listen(e.t.Context(), "tcp", bubble.Host(m.id)+":2181")
	if err != nil {
		e.t.Fatal(err)
	}
	c := server.Default()
	c.FS, c.DataDir, c.PreallocBytes, c.TickTime = m.fs, "data", 1<<20, Tick
	if e.random.IntN(3) == 0 {
		slow := func(name string) bool { return !e.quiet.Load() && strings.Contains(name, "/log.") }
		c.FS = bubble.SlowDisk(m.fs, slow, 3*time.Second, rand.New(rand.NewPCG(e.random.Uint64(), 1)))
	}
	c.Clock, c.Wall, c.Logger = m.clock, time.Now, slog.New(slog.DiscardHandler)
	c.Observer = m.observes
	c.ID, c.Ensemble, c.InitLimit, c.SyncLimit = quorum.ID(m.id), e.config, 10, e.syncLimit
	c.Listener, c.Listen, c.PeerDial = clients, e.Net.Listen, e.Net.Dialer(m.id)
	s, err := server.New(c)
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	m.s, m.stop = s, func() error { stop(); return <-ended }
}

// halt ends the server of a machine. If power is true, the machine loses its power.
func (e *Ensemble) halt(m *machine, power bool) {
	if m.s == nil {
		return
	}
	if power {
		e.Net.Power(m.id, false)
		m.fs = m.fs.CrashClone([]int{0, 50, 100}[e.random.IntN(3)], e.random.Int64())
	}
	if err := m.stop(); err != nil {
		e.o.Breach("server %d has ended: %v", m.id, err)
	}
	m.s = nil
}
