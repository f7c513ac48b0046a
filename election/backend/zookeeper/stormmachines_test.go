package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/partition"
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

// stormCandidate is a machine with a candidate that is a member of a group as well, over one
// backend, and has no other after it.
type stormCandidate struct {
	machine int
	elector *election.Elector
	leave   chan struct{} // of 1: it gives its claim up, and comes back later; its session stays
	leaveIn atomic.Int64  // after so many answers it leaves, if that is above zero
	vanish  func()        // ends it, and returns when nothing of it is left
	dead    chan struct{}

	mu     sync.Mutex
	random *rand.Rand
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
		slow := func(name string) bool { return !w.quiet.Load() && strings.Contains(name, "/log.") }
		c.FS = bubble.SlowDisk(m.fs, slow, 3*time.Second,
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
	options := election.Options{ID: fmt.Sprint("c", c.machine), Lease: w.lease,
		Clock: its, Retry: 50 * time.Millisecond, RetryMax: time.Second, Priority: w.random.IntN(2)}
	if c.elector, err = election.New(backend, stormElection, options); err != nil {
		w.t.Fatal(err)
	}
	c.random = rand.New(rand.NewPCG(w.random.Uint64(), 3))
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	run := func(run func(here, life context.Context) error) {
		ended.Go(func() {
			if err := c.campaign(ctx, 2*w.lease, run); ctx.Err() == nil {
				w.breach("%s has ended: %v", c.elector.ID(), err)
			}
		})
	}
	lead := w.lead(c, stormElection)
	run(func(here, _ context.Context) error { return c.elector.Run(here, lead) })
	if w.grouped {
		run(func(here, life context.Context) error { return w.join(c, backend, options, here, life) })
	}
	c.vanish = func() {
		close(c.dead)
		cancel()
		ended.Wait()
		_ = queued.Close()
	}
	w.running = append(w.running, c)
}

// join is a member of the group until it is to be away.
func (w *storm) join(c *stormCandidate, backend election.Backend, options election.Options, here, life context.Context) error {
	member, err := partition.New(backend, stormGroup, partition.Options{Partitions: stormPartitions,
		MembersMax: 2 * stormCandidates, MaxMoves: 2, Election: options})
	if err != nil {
		return err
	}
	if c.awhile(2) == 0 { // it hands over what it has, before it is away
		defer context.AfterFunc(here, member.Leave)()
		here = life
	}
	return member.Run(here, func(ctx context.Context, p int, leads election.Leadership) error {
		return w.lead(c, fmt.Sprint("partition ", p))(ctx, leads)
	})
}

// awhile is some time below the limit.
func (c *stormCandidate) awhile(limit time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.random.Int64N(int64(limit)))
}

// campaign runs something, but for the times that it is away, until its life ends.
func (c *stormCandidate) campaign(life context.Context, away time.Duration, run func(here, life context.Context) error) error {
	for {
		here, leave := context.WithCancel(life)
		go func() {
			defer leave()
			select {
			case <-c.leave:
			case <-here.Done():
			}
		}()
		err := run(here, life)
		over := here.Err() == nil
		leave()
		switch {
		case life.Err() != nil:
			return nil
		case over, err != nil && !errors.Is(err, context.Canceled):
			return err
		}
		select {
		case <-time.After(c.awhile(away)):
		case <-life.Done():
		}
	}
}
