//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/test/servers"
)

// The figures of a load, as parts of their names.
const (
	perSecond  = "operations/s"
	median     = "p50 µs"
	tail       = "p99 µs"
	serverCPU  = "server CPU µs/op"
	leaderCPU  = "leader CPU µs/op"
	clientCPU  = "load generator CPU µs/op"
	resident   = "resident MiB"
	untilServe = "start to serving ms"
)

// A part is one load that is measured on a running server.
type part struct {
	name     string
	workload loadgen.Workload
	alone    bool // one connection, one request at a time
}

// loads are in the order in which a server gets them. create is last, so all others are
// measured on the same tree.
var loads = []part{
	{name: "get", workload: loadgen.Get},
	{name: "set", workload: loadgen.Set},
	{name: "mix", workload: loadgen.Mix},
	{name: "single", workload: loadgen.Set, alone: true},
	{name: "create", workload: loadgen.Create},
}

// partNames returns the parts for an ensemble of the given size: memory and start time are
// measured only for one server.
func partNames(size int) []string {
	var names []string
	for _, l := range loads {
		names = append(names, l.name)
	}
	if size == 1 {
		names = append(names, "memory", "restart")
	}
	return names
}

// All servers get the same number of creates, not creates for the same time: the more
// znodes are in a tree, the more a snapshot costs.
const (
	creates       = 200_000
	warmUpCreates = 20_000
	createsMax    = time.Minute // limit for slow servers
)

// loadZnodes is the number of znodes that are read and set.
const loadZnodes = 10_000

// quietFor is how long a server is left alone before its memory is read: a snapshot may be
// in progress.
const quietFor = 5 * time.Second

// measured is the result of one repetition: values by "part figure".
type measured map[string]float64

// A subject is a kind of server that is measured.
type subject interface {
	Name() string

	// Install installs what it needs.
	Install(ctx context.Context) error

	// target runs f with a fresh server or ensemble, and stops it.
	target(ctx context.Context, p *plan, f func(target) error) error

	// server runs f with a fresh server, and stops it.
	server(ctx context.Context, p *plan, f func(*servers.Server) error) error
}

// A target is what receives the loads: a server, or an ensemble.
type target struct {
	addrs []string
	cpu   func() (time.Duration, error) // the sum of all servers

	// leader is the leader's share of cpu; nil if the loads are not only on the leader.
	leader func() (time.Duration, error)
}

// measure starts a server for the loads and another for a large tree.
func measure(ctx context.Context, p *plan, k subject) (measured, error) {
	m := measured{}
	if slices.ContainsFunc(loads, func(l part) bool { return slices.Contains(p.parts, l.name) }) {
		if err := k.target(ctx, p, func(on target) error { return p.loads(ctx, on, m) }); err != nil {
			return nil, err
		}
	}
	if slices.Contains(p.parts, "memory") || slices.Contains(p.parts, "restart") {
		if err := k.server(ctx, p, func(s *servers.Server) error { return p.tree(ctx, s, m) }); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// A program is a subject that is started in the way operators start it.
type program struct{ servers.Kind }

// programs returns the subjects of a list of kinds.
func programs(kinds []servers.Kind) []subject {
	all := make([]subject, len(kinds))
	for i, k := range kinds {
		all[i] = program{k}
	}
	return all
}

func (k program) target(ctx context.Context, p *plan, f func(target) error) error {
	if p.size == 1 {
		return k.server(ctx, p, func(s *servers.Server) error { return f(target{addrs: []string{s.Addr}, cpu: s.CPU}) })
	}
	o := servers.EnsembleOptions{Kinds: slices.Repeat([]servers.Kind{k.Kind}, p.size), HeapMiB: p.heapMiB,
		Config: append([]string{"tickTime=2000"}, p.config...), JavaFlags: []string{"-Dconclave.log.level=WARN"}}
	return servers.WithEnsemble(ctx, o, func(e *servers.Ensemble, leader *servers.Member) error {
		// Connections go to all servers in turn. The first one, which is the only one of a
		// single client, is a follower, as for most clients in production.
		on := target{cpu: e.CPU}
		for _, m := range e.Members {
			if m != leader {
				on.addrs = append(on.addrs, m.Addr)
			}
		}
		on.addrs = append(on.addrs, leader.Addr)
		if p.atLeader {
			on.addrs, on.leader = []string{leader.Addr}, leader.Server().CPU
		}
		return f(on)
	})
}

func (k program) server(ctx context.Context, p *plan, f func(*servers.Server) error) error {
	s, err := servers.Start(ctx, k.Kind, servers.Options{HeapMiB: p.heapMiB, Config: p.config,
		JavaFlags: []string{"-Dconclave.log.level=WARN"}, StartWithin: 5 * time.Minute})
	if err != nil {
		return err
	}
	defer s.Kill()
	if err := f(s); err != nil {
		return fmt.Errorf("%w\n%s", err, s.LogTail(2000))
	}
	return s.Stop()
}

func (p *plan) options(addrs ...string) loadgen.Options {
	o := loadgen.Options{Addrs: addrs, Connections: p.connections, InFlight: p.inFlight,
		DataBytes: p.dataBytes, Znodes: loadZnodes, Duration: p.duration}
	if p.tls != nil {
		o.Dial = p.tls.Dial
	}
	return o
}

// loads warms up the server and measures the chosen loads.
func (p *plan) loads(ctx context.Context, on target, m measured) error {
	if err := loadgen.Fill(ctx, p.options(on.addrs...)); err != nil {
		return err
	}
	for _, w := range []loadgen.Workload{loadgen.Get, loadgen.Set, loadgen.Create} {
		o := p.options(on.addrs...)
		o.Workload, o.Duration, o.Prefix = w, p.warmUp/3, "/bench"
		if o.Duration == 0 {
			break
		}
		if w == loadgen.Create {
			o.Operations = warmUpCreates
		}
		if _, err := loadgen.Run(ctx, o); err != nil {
			return err
		}
	}
	for _, l := range loads {
		if !slices.Contains(p.parts, l.name) {
			continue
		}
		if err := p.load(ctx, on, l, m); err != nil {
			return err
		}
	}
	return nil
}

// load measures one load.
func (p *plan) load(ctx context.Context, on target, l part, m measured) error {
	o := p.options(on.addrs...)
	o.Workload = l.workload
	if l.alone {
		o.Connections, o.InFlight = 1, 1
	}
	if l.workload == loadgen.Create {
		o.Operations, o.Duration = creates, createsMax
	}
	before, err := on.used()
	if err != nil {
		return err
	}
	own := ownCPU()
	r, err := loadgen.Run(ctx, o)
	if err != nil {
		return err
	}
	after, err := on.used()
	if err != nil {
		return err
	}
	if r.Refused > 0 {
		return fmt.Errorf("%s: %d of %d operations refused, the first with %q", l.name, r.Refused, r.Operations, r.FirstCode)
	}
	perOp := func(d time.Duration) float64 { return micros(d) / float64(r.Operations) }
	m[l.name+" "+perSecond] = r.PerSecond()
	m[l.name+" "+median] = micros(r.Latencies.Quantile(0.5))
	m[l.name+" "+tail] = micros(r.Latencies.Quantile(0.99))
	m[l.name+" "+serverCPU] = perOp(after.all - before.all)
	m[l.name+" "+leaderCPU] = perOp(after.leader - before.leader)
	m[l.name+" "+clientCPU] = perOp(ownCPU() - own)
	return nil
}

// used is the CPU time so far.
type used struct{ all, leader time.Duration }

func (t target) used() (u used, err error) {
	if t.leader != nil {
		if u.leader, err = t.leader(); err != nil {
			return u, err
		}
	}
	u.all, err = t.cpu()
	return u, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// ownCPU returns the CPU time of this process so far.
func ownCPU() time.Duration {
	var u syscall.Rusage
	// It cannot fail with these arguments.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tree creates the large tree, reads the server's memory, kills the server, and waits until
// it serves the last znode again.
func (p *plan) tree(ctx context.Context, s *servers.Server, m measured) error {
	last, err := loadgen.Tree(ctx, p.options(s.Addr), p.znodes)
	if err != nil {
		return err
	}
	select {
	case <-time.After(quietFor):
	case <-ctx.Done():
		return ctx.Err()
	}
	if slices.Contains(p.parts, "memory") {
		bytes, err := s.RSS()
		if err != nil {
			return err
		}
		m["memory "+resident] = float64(bytes) / (1 << 20)
	}
	if !slices.Contains(p.parts, "restart") {
		return nil
	}
	s.Crash()
	start := time.Now()
	if err := s.Restart(ctx); err != nil {
		return err
	}
	for {
		if err = loadgen.Answers(ctx, p.options(s.Addr), last); err == nil || time.Since(start) > 5*time.Minute || ctx.Err() != nil {
			break
		}
		time.Sleep(5 * time.Millisecond) // poll: there is no notification when the server is ready
	}
	m["restart "+untilServe] = micros(time.Since(start)) / 1000
	if bytes, err := s.RSS(); err == nil {
		m["restart "+resident] = float64(bytes) / (1 << 20)
	}
	return err
}
