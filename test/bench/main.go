//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// A plan is the command line.
type plan struct {
	subjects    []subject
	parts       []string
	size        int // number of servers; 1 is a standalone server
	repetitions int
	duration    time.Duration
	warmUp      time.Duration
	connections int
	inFlight    int
	dataBytes   int
	znodes      int
	heapMiB     int
	config      []string
	json        bool
	secure      bool                  // clients speak TLS
	tls         *servers.Certificates // set during the measurement
	goals       map[string]bound
	atLeader    bool // the load is only on an ensemble's leader
}

const usage = `usage: bench compare [flags]
       bench failover [flags]
       bench floor [flags]
       bench elections [flags]
       bench etcd [flags]
       bench check [flags]
       bench profile [flags]
       bench scale [flags]
       bench settings [flags]

compares servers on this machine: under load, when a leader fails, and
Conclave with the least server that there can be; elections on stores, by our
SDK and the libraries of others; the same work on etcd; counts of this tree with
those of a commit; where a server's time goes; how it bears size; and what lines
of zoo.cfg cost; -h shows the flags of each`

// commands are the available measurements.
var commands = map[string]func(ctx context.Context, args []string) error{
	"compare": func(ctx context.Context, args []string) error {
		p, err := parse(args)
		if err != nil {
			return err
		}
		return compare(ctx, p)
	},
	"failover": func(ctx context.Context, args []string) error {
		f, err := parseFailover(args)
		if err != nil {
			return err
		}
		return f.run(ctx)
	},
	"floor": func(ctx context.Context, args []string) error {
		p, err := parseFloor(args)
		if err != nil {
			return err
		}
		return compare(ctx, p)
	},
	"elections": func(ctx context.Context, args []string) error {
		e, err := parseElections(args)
		if err != nil {
			return err
		}
		return e.run(ctx)
	},
	"etcd": func(ctx context.Context, args []string) error {
		e, err := parseEtcd(args)
		if err != nil {
			return err
		}
		return e.run(ctx)
	},
	"check":       checkCounts,
	"profile":     profileLoads,
	"scale":       measureScale,
	"settings":    compareSettings,
	profileServer: serveProfiled,
	floorServer:   func(_ context.Context, args []string) error { return serveFloor(args) },
}

func main() {
	var command func(ctx context.Context, args []string) error
	if len(os.Args) > 1 {
		command = commands[os.Args[1]]
	}
	if command == nil {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	os.Setenv("CGO_ENABLED", "0") // the measured program is built as for packages
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[2:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse(args []string) (*plan, error) {
	p := &plan{goals: goals}
	f := flag.NewFlagSet("bench compare", flag.ExitOnError)
	names := f.String("servers", "apache-"+servers.Apache39+",conclave", "what to compare; ratios are to the first")
	f.IntVar(&p.znodes, "znodes", 1_000_000, "znodes for memory and restart")
	f.IntVar(&p.heapMiB, "heap", 4096, "heap limit of a Java server, MiB")
	f.BoolVar(&p.secure, "tls", false, "the load comes over TLS; Apache's server uses Netty then")
	if err := p.parse(f, args, partNames); err != nil {
		return nil, err
	}
	if p.znodes < 1 {
		return nil, fmt.Errorf("bench: znodes must be positive")
	}
	if p.size > 1 {
		p.goals = ensembleGoals
	}
	kinds, err := named(*names)
	p.subjects = programs(kinds)
	return p, err
}

// parse parses the flags of every comparison; names returns the parts that exist for an
// ensemble of the given size.
func (p *plan) parse(f *flag.FlagSet, args []string, names func(size int) []string) error {
	chosen := f.String("parts", "", "what to measure, some of "+strings.Join(names(1), ",")+"; all if empty")
	f.IntVar(&p.size, "size", 1, "servers of an ensemble; 1 is a standalone server")
	config := f.String("config", "", "further lines of zoo.cfg, separated by commas")
	f.IntVar(&p.repetitions, "repetitions", 3, "how often; each figure is the median")
	f.DurationVar(&p.duration, "duration", 5*time.Second, "how long each load is measured")
	f.DurationVar(&p.warmUp, "warm-up", 10*time.Second, "load before anything is measured")
	f.IntVar(&p.connections, "connections", 8, "connections")
	f.IntVar(&p.inFlight, "in-flight", 64, "requests in flight on each connection")
	f.IntVar(&p.dataBytes, "data-bytes", 100, "data of each znode")
	f.BoolVar(&p.json, "json", false, "print JSON, every repetition included")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *config != "" {
		p.config = strings.Split(*config, ",")
	}
	if p.repetitions < 1 || p.duration <= 0 || p.size < 1 {
		return fmt.Errorf("bench: repetitions, duration and size must be positive")
	}
	p.parts = names(p.size)
	if *chosen != "" {
		p.parts = strings.Split(*chosen, ",")
	}
	for _, name := range p.parts {
		if !slices.Contains(names(p.size), name) {
			return fmt.Errorf("bench: no part %q: say some of %s", name, strings.Join(names(p.size), ","))
		}
	}
	return nil
}

// named returns the servers in a list of names.
func named(names string) ([]servers.Kind, error) {
	var kinds []servers.Kind
	for _, name := range strings.Split(names, ",") {
		k, err := servers.Named(name)
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// compare measures each server in turn, repeatedly, and reports. The order is reversed in
// every round, so a change of conditions on the machine affects both alike.
func compare(ctx context.Context, p *plan) error {
	for _, k := range p.subjects {
		if err := k.Install(ctx); err != nil {
			return err
		}
	}
	if p.secure {
		var err error
		if p.tls, err = servers.NewCertificates(); err != nil {
			return err
		}
		defer p.tls.Remove()
		p.config = append(p.config, p.tls.Config()...)
	}
	r := newReport(p)
	turn := slices.Clone(p.subjects)
	for n := range p.repetitions {
		if n > 0 {
			slices.Reverse(turn)
		}
		for _, k := range turn {
			fmt.Fprintf(os.Stderr, "%s, %d of %d\n", k.Name(), n+1, p.repetitions)
			m, err := measure(ctx, p, k)
			if err != nil {
				return fmt.Errorf("bench: %s: %w", k.Name(), err)
			}
			r.add(k.Name(), m)
		}
	}
	if p.json {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	fmt.Print(r.text())
	return nil
}
