//go:build linux

package check

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/test/servers"
)

// A load is a sequence of operations on one connection, so the contents of batches do not
// depend on how several connections take turns.
type load struct {
	name       string
	workload   loadgen.Workload
	inFlight   int
	operations int64
}

var serverLoads = []load{
	{"get, one at a time", loadgen.Get, 1, 5000},
	{"get, 64 in flight", loadgen.Get, 64, 64_000},
	{"set, one at a time", loadgen.Set, 1, 3000},
	{"set, 64 in flight", loadgen.Set, 64, 64_000},
	{"create, 64 in flight", loadgen.Create, 64, 32_000},
}

// rounds is how often each version's server is started.
const rounds = 3

// The counts for a server's load, as parts of their names.
const (
	ofServer = "server "
	reads    = "reads/op"
	writes   = "writes/op"
	syncs    = "syncs/op"
	waits    = "waits/op"
)

// server compares the system calls of a real server.
func (c *comparison) server(ctx context.Context) error {
	for _, v := range c.versions() {
		if err := c.try(ctx, v, func() error {
			// The counts do not depend on a profile, and without one most packages were
			// compiled for the benchmarks already.
			_, err := output(ctx, v.dir, "go", "build", "-trimpath", "-pgo=off", "-buildvcs=false", "-o", v.server(), "./cmd/conclave")
			return err
		}); err != nil {
			return err
		}
	}
	if !c.all && alike(c.head.server(), c.base.server()) {
		c.unchanged = append(c.unchanged, "cmd/conclave")
		return nil
	}
	c.progress("system calls of the server")
	for range rounds {
		for _, v := range c.versions() {
			if _, err := os.Stat(v.server()); err != nil {
				continue
			}
			if err := c.try(ctx, v, func() error { return v.serve(ctx) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *version) server() string { return filepath.Join(v.built, "conclave") }

// serve counts what a server does for the loads. No snapshot is written meanwhile.
func (v *version) serve(ctx context.Context) (err error) {
	s, err := servers.Start(ctx, servers.ConclaveAt(v.server()), servers.Options{Config: []string{"snapCount=10000000"}})
	if err != nil {
		return err
	}
	defer s.Kill()
	o := loadgen.Options{Addrs: []string{s.Addr}, Connections: 1, Znodes: 1000, Duration: time.Minute}
	if err := loadgen.Fill(ctx, o); err != nil {
		return err
	}
	for _, l := range serverLoads {
		o.Workload, o.InFlight, o.Operations = l.workload, l.inFlight, l.operations
		before, err := look(s)
		if err != nil {
			return err
		}
		r, err := loadgen.Run(ctx, o)
		if err != nil {
			return err
		}
		after, err := look(s)
		if err != nil {
			return err
		}
		for unit, n := range after {
			v.counts.note(ofServer+l.name+" "+unit, (n-before[unit])/float64(r.Operations))
		}
	}
	return nil
}

// look reads a server's counters.
func look(s *servers.Server) (map[string]float64, error) {
	metrics, err := servers.Metrics(s.Addr)
	if err != nil {
		return nil, err
	}
	c, err := s.Counters()
	return map[string]float64{reads: float64(c.Reads), writes: float64(c.Writes),
		syncs: metrics["zk_cnt_fsynctime"], waits: float64(c.Switches)}, err
}
