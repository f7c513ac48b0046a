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
	kinds       []servers.Kind
	parts       []string
	size        int // servers of an ensemble; 1 is a standalone one
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
	tls         *servers.Certificates // while it is measured
}

const usage = `usage: bench compare [flags]
       bench failover [flags]

compares servers on this machine: under load, and when a leader fails;
bench compare -h and bench failover -h show the flags`

// commands are what can be measured.
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[2:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse(args []string) (*plan, error) {
	p := &plan{}
	f := flag.NewFlagSet("bench compare", flag.ExitOnError)
	names := f.String("servers", "apache-"+servers.Apache39+",conclave", "what to compare; ratios are to the first")
	chosen := f.String("parts", "", "what to measure, some of "+strings.Join(partNames(1), ",")+"; all if empty")
	f.IntVar(&p.size, "size", 1, "servers of an ensemble; 1 is a standalone server")
	config := f.String("config", "", "further lines of zoo.cfg, separated by commas")
	f.IntVar(&p.repetitions, "repetitions", 3, "how often; each figure is the median")
	f.DurationVar(&p.duration, "duration", 5*time.Second, "how long each load is measured")
	f.DurationVar(&p.warmUp, "warm-up", 10*time.Second, "load before anything is measured")
	f.IntVar(&p.connections, "connections", 8, "connections")
	f.IntVar(&p.inFlight, "in-flight", 64, "requests in flight on each connection")
	f.IntVar(&p.dataBytes, "data-bytes", 100, "data of each znode")
	f.IntVar(&p.znodes, "znodes", 1_000_000, "znodes for memory and restart")
	f.IntVar(&p.heapMiB, "heap", 4096, "heap limit of a Java server, MiB")
	f.BoolVar(&p.secure, "tls", false, "the load comes over TLS; Apache's server uses Netty then")
	f.BoolVar(&p.json, "json", false, "print JSON, every repetition included")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if *config != "" {
		p.config = strings.Split(*config, ",")
	}
	if p.repetitions < 1 || p.znodes < 1 || p.duration <= 0 || p.size < 1 {
		return nil, fmt.Errorf("bench: repetitions, znodes, duration and size must be positive")
	}
	p.parts = partNames(p.size)
	if *chosen != "" {
		p.parts = strings.Split(*chosen, ",")
	}
	for _, name := range p.parts {
		if !slices.Contains(partNames(p.size), name) {
			return nil, fmt.Errorf("bench: no part %q: say some of %s", name, strings.Join(partNames(p.size), ","))
		}
	}
	var err error
	p.kinds, err = named(*names)
	return p, err
}

// named are the servers of a list of names.
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

// compare measures each server in turn, again and again, and reports.
func compare(ctx context.Context, p *plan) error {
	for _, k := range p.kinds {
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
	for n := range p.repetitions {
		for _, k := range p.kinds {
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
