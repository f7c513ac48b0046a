package zookeeper_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
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

// boot starts the server of a machine.
func (w *serversStorm) boot(m *stormServer) {
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
	if w.Random.IntN(3) == 0 {
		slow := func(name string) bool { return !w.Quiet.Load() && strings.Contains(name, "/log.") }
		c.FS = bubble.SlowDisk(m.fs, slow, 3*time.Second,
			rand.New(rand.NewPCG(w.Random.Uint64(), 1)))
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

func (w *serversStorm) halt(m *stormServer, power bool) {
	if m.s == nil {
		return
	}
	if power {
		w.net.Power(m.id, false)
		m.fs = m.fs.CrashClone([]int{0, 50, 100}[w.Random.IntN(3)], w.Random.Int64())
	}
	if err := m.stop(); err != nil {
		w.Breach("server %d has ended: %v", m.id, err)
	}
	m.s = nil
}

// stand starts a candidate on a machine of its own.
func (w *serversStorm) stand() {
	w.last++
	c := w.Candidate(w.last)
	hosts := make([]string, len(w.servers))
	for i, m := range w.servers {
		hosts[i] = bubble.Host(m.id) + ":2181"
	}
	queued, err := zookeeper.New(strings.Join(hosts, ","), zookeeper.Options{Client: client.Options{
		Dialer: w.net.Dialer(c.Machine), Clock: c.Clock, Seed: w.Random.Uint64() | 1, OnEvent: func(e client.Event) {
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
