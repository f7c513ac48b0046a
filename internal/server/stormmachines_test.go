package server

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/storm"
	"github.com/conclave-project/conclave/internal/vfs"
)

// machine is where one server runs, is down, and runs again.
type machine struct {
	id   int
	fs   *vfs.Mem
	s    *Server
	stop func() error

	found int // acknowledged writes that were found, since it runs

	mu             sync.Mutex
	off            bool             // no power: nothing is saved
	inForce, asked *ensemble.Config // as they were saved
	own            ensemble.Member  // where it was last
}

// stormLog adds what a server logs to the storm's log.
type stormLog struct{ write func(string) }

func (l stormLog) Write(b []byte) (int, error) { l.write(string(b)); return len(b), nil }

// boot starts the server of a machine from its files.
func (w *ensembleStorm) boot(m *machine) {
	if m.s != nil {
		return
	}
	w.net.Power(m.id, true)
	logger := slog.New(slog.DiscardHandler)
	if storm.Prints() {
		logger = slog.New(slog.NewTextHandler(stormLog{func(s string) {
			fmt.Printf("%9.3f server %d: %s", time.Since(w.Began).Seconds(), m.id, s)
		}}, nil))
	}
	m.mu.Lock()
	inForce, asked, own := m.inForce, m.asked, m.own
	m.off = false
	m.mu.Unlock()
	clients, err := w.net.Listen(w.t.Context(), "tcp", bubble.Host(m.id)+":2181")
	if err != nil {
		w.Breach("start server %d: %v", m.id, err)
		return
	}
	slow, saves := w.random.IntN(4) == 0, rand.New(rand.NewPCG(w.random.Uint64(), 1))
	saving := func() time.Duration { // it has one goroutine
		if !slow {
			return 0
		}
		return time.Duration(saves.IntN(500)) * time.Millisecond
	}
	var disk vfs.FS = m.fs
	if w.random.IntN(4) == 0 {
		disk = bubble.SlowDisk(m.fs, ofLog, time.Second, rand.New(rand.NewPCG(w.random.Uint64(), 1)))
	}
	s, err := New(testConfig(disk, func(c *Config) {
		c.Clock, c.Wall, c.Logger = w.clock, time.Now, logger
		c.ID, c.Ensemble, c.Pending, c.ReconfigEnabled = quorum.ID(m.id), inForce, asked, true
		c.Auth.SkipACL = true
		c.SilenceTime, c.InitLimit, c.SyncLimit = time.Second, 10, 5
		c.Listener, c.Listen = clients, w.net.Listen
		c.PeerDial = w.net.Dialer(m.id)
		if line := inForce.Member(c.ID); line != nil {
			c.Observer = line.Observer
		} else {
			c.Own = &own
		}
		c.SaveEnsemble = func(c *ensemble.Config, next bool) error {
			time.Sleep(saving())
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.off {
				return nil
			}
			if next {
				m.asked = c
			} else if m.inForce = c; m.asked != nil && m.asked.Version <= c.Version {
				m.asked = nil
			}
			if line := c.Member(quorum.ID(m.id)); line != nil && !next {
				m.own = *line
			}
			return nil
		}
		c.RoleChanged = func(role Role) { w.leads(m.id, role) }
		if w.mutant != nil {
			w.mutant(c)
		}
	}))
	if err != nil {
		clients.Close()
		w.Breach("start server %d: %v", m.id, err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	m.s, m.found, m.stop = s, 0, func() error { stop(); return <-ended }
}

// kill ends a machine like a power loss: some of what was not synced is kept.
func (w *ensembleStorm) kill(m *machine) {
	w.net.Power(m.id, false)
	m.mu.Lock()
	m.off = true
	m.mu.Unlock()
	m.fs = m.fs.CrashClone([]int{0, 50, 100}[w.random.IntN(3)], w.random.Int64())
	w.halt(m)
}

func (w *ensembleStorm) halt(m *machine) {
	if m.s == nil {
		return
	}
	if err := m.stop(); err != nil {
		w.Breach("server %d has ended: %v", m.id, err)
	}
	m.s = nil
}
