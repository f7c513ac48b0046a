package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
)

// stormServer is a machine with a server.
type stormServer struct {
	id       int
	observes bool // it has no vote
	fs       *vfs.Mem
	clock    clock.Clock
	s        *server.Server
	stop     func() error
}

// stormCandidate is a machine with a candidate, which has no other after it.
type stormCandidate struct {
	machine int
	elector *election.Elector
	leave   chan struct{} // of 1: it gives its claim up, and comes back later; its session stays
	leaveIn atomic.Int64  // after so many answers it leaves, if that is above zero
	vanish  func()        // ends it, and returns when nothing of it is left
	dead    chan struct{}
}

// stormClock is up to two and a half per cent slow or fast, which are five between two.
func stormClock(random *rand.Rand) clock.Clock {
	return bubble.Clock([]float64{0.975, 1, 1.025}[random.IntN(3)])
}

// boot starts the server of a machine.
func (w *storm) boot(m *stormServer) {
	if m.s != nil {
		return
	}
	w.net.Power(m.id, true)
	clients, err := w.net.Listen(w.t.Context(), "tcp", bubble.Host(m.id)+":2181")
	if err != nil {
		w.t.Fatal(err)
	}
	c := server.Default()
	c.FS, c.DataDir, c.PreallocBytes, c.TickTime = m.fs, "data", 1<<20, stormTick
	if w.random.IntN(3) == 0 {
		c.FS = bubble.SlowDisk(m.fs, func(name string) bool { return strings.Contains(name, "/log.") }, 3*time.Second,
			rand.New(rand.NewPCG(w.random.Uint64(), 1)))
	}
	c.Clock, c.Wall, c.Logger = m.clock, time.Now, slog.New(slog.DiscardHandler)
	c.Observer = m.observes
	c.ID, c.Ensemble, c.InitLimit, c.SyncLimit = quorum.ID(m.id), w.config, 10, w.syncLimit
	c.Listener, c.Listen, c.PeerDial = clients, w.net.Listen, w.net.Dialer(m.id)
	s, err := server.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	m.s, m.stop = s, func() error { stop(); return <-ended }
}

func (w *storm) halt(m *stormServer, power bool) {
	if m.s == nil {
		return
	}
	if power {
		w.net.Power(m.id, false)
		m.fs = m.fs.CrashClone([]int{0, 50, 100}[w.random.IntN(3)], w.random.Int64())
	}
	if err := m.stop(); err != nil {
		w.breach("server %d has ended: %v", m.id, err)
	}
	m.s = nil
}

// stand starts a candidate on a machine of its own.
func (w *storm) stand() {
	w.last++
	c := &stormCandidate{machine: w.last, leave: make(chan struct{}, 1), dead: make(chan struct{})}
	hosts := make([]string, len(w.servers))
	for i, m := range w.servers {
		hosts[i] = bubble.Host(m.id) + ":2181"
	}
	its := stormClock(w.random)
	queued, err := zookeeper.New(strings.Join(hosts, ","), zookeeper.Options{Client: client.Options{
		Dialer: w.net.Dialer(c.machine), Clock: its, Seed: w.random.Uint64() | 1, OnEvent: func(e client.Event) {
			if e.Kind == client.EventRequest && c.leaveIn.Add(-1) == 0 {
				w.leave(c)
			}
		}}})
	if err != nil {
		w.t.Fatal(err)
	}
	backend := election.Backend(queued)
	if w.mutant.backend != nil {
		backend = w.mutant.backend(c.machine, queued)
	}
	c.elector, err = election.New(backend, "storm", election.Options{ID: fmt.Sprint("c", c.machine), Lease: w.lease,
		Clock: its, Retry: 50 * time.Millisecond, RetryMax: time.Second, Priority: w.random.IntN(2)})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	random := rand.New(rand.NewPCG(w.random.Uint64(), 3))
	go func() { ended <- c.campaign(ctx, w.lead(c, random), 2*w.lease) }()
	c.vanish = func() {
		close(c.dead)
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.say("%s has ended: %v", c.elector.ID(), err)
		}
		_ = queued.Close()
	}
	w.running = append(w.running, c)
}

// campaign campaigns, but for the times that it is away, until the context ends.
func (c *stormCandidate) campaign(ctx context.Context, lead func(context.Context, election.Leadership) error, away time.Duration) error {
	random := rand.New(rand.NewPCG(uint64(c.machine), 4))
	for {
		here, leave := context.WithCancel(ctx)
		go func() {
			defer leave()
			select {
			case <-c.leave:
			case <-here.Done():
			}
		}()
		err := c.elector.Run(here, lead)
		leave()
		if ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return err
		}
		select {
		case <-time.After(time.Duration(random.Float64() * random.Float64() * float64(away))):
		case <-ctx.Done():
		}
	}
}
