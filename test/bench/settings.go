//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/test/bench/middle"
	"github.com/conclave-project/conclave/test/servers"
)

// settingsBlocks is the number of ratios per load whose median is printed.
const settingsBlocks = 10

// settings is the command line of measuring lines of zoo.cfg.
type settings struct {
	plan
	lines  []string
	other  string // binary of the server that has the lines; empty means the same binary
	slices int    // number for each server, in a block
}

// A side is a server, and what one load has cost on it.
type side struct {
	server     *servers.Server
	cpu        time.Duration
	operations int64
}

func (s *side) micros() float64 { return micros(s.cpu) / float64(s.operations) }

// compareSettings prints the cost of lines of zoo.cfg, in CPU time per operation. Two
// servers run all the time, with and without the lines, and the load switches between them
// several times a second, so a change of conditions on the machine affects both.
func compareSettings(ctx context.Context, args []string) error {
	s := &settings{}
	f := flag.NewFlagSet("bench settings", flag.ExitOnError)
	f.DurationVar(&s.duration, "slice", 400*time.Millisecond, "how long the load stays on a server")
	f.IntVar(&s.slices, "slices", 6, "slices of each server in a block")
	f.IntVar(&s.connections, "connections", 8, "connections")
	f.IntVar(&s.inFlight, "in-flight", 64, "requests in flight on each connection")
	f.IntVar(&s.dataBytes, "data-bytes", 100, "data of each znode")
	loads := f.String("loads", "mix,set,create,get", "what load")
	lines := f.String("lines", "", "the lines, with ';' between them; default: the audit log and the port of metrics, and none with -other")
	f.StringVar(&s.other, "other", "", "a binary for the second server, such as one of another version")
	if err := f.Parse(args); err != nil {
		return err
	}
	if s.slices < 1 || s.duration <= 0 {
		return errors.New("bench: slices and their duration must be positive")
	}
	if s.lines = strings.FieldsFunc(*lines, func(r rune) bool { return r == ';' }); len(s.lines) == 0 && s.other == "" {
		port, err := childtest.FreePort()
		if err != nil {
			return err
		}
		s.lines = []string{
			"audit.enable=true",
			"metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
			"metricsProvider.httpHost=127.0.0.1", fmt.Sprint("metricsProvider.httpPort=", port),
		}
	}
	return s.run(ctx, strings.Split(*loads, ","))
}

func (s *settings) run(ctx context.Context, loads []string) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "load\twithout\twith\tratio\tof blocks: middle\tleast\tmost\toperations")
	for _, load := range loads {
		if err := s.pair(ctx, load, out); err != nil {
			return errors.Join(out.Flush(), err)
		}
	}
	return out.Flush()
}

// pair starts two servers, runs a load on them, and prints its line.
func (s *settings) pair(ctx context.Context, load string, out io.Writer) error {
	var sides [2]side
	for i := range sides {
		kind := servers.Conclave()
		if i == 1 && s.other != "" {
			kind = servers.ConclaveAt(s.other)
		}
		server, err := servers.Start(ctx, kind, servers.Options{Config: s.lines[:i*len(s.lines)]})
		if err != nil {
			return err
		}
		defer server.Kill()
		sides[i].server = server
		if err := loadgen.Fill(ctx, s.options(server.Addr)); err != nil {
			return err
		}
	}
	if err := s.block(ctx, &sides, load, 0); err != nil { // warm-up
		return err
	}
	var all [2]side
	var ratios []float64
	for n := range settingsBlocks {
		if err := s.block(ctx, &sides, load, n); err != nil {
			return err
		}
		for i := range sides {
			all[i].cpu += sides[i].cpu
			all[i].operations += sides[i].operations
		}
		ratios = append(ratios, sides[1].micros()/sides[0].micros())
	}
	without, with := all[0].micros(), all[1].micros()
	fmt.Fprintf(out, "%s\t%.2f us\t%.2f us\t%.3f\t%.3f\t%.3f\t%.3f\t%d\n", load, without, with, with/without,
		middle.Of(ratios), slices.Min(ratios), slices.Max(ratios), all[0].operations+all[1].operations)
	return nil
}

// turn returns the server for a slice of a block: in every two slices each server has one,
// and the two take turns in being first.
func turn(slice, block int) int { return (slice + slice/2 + block) % 2 }

// block runs a load on the servers in turn.
func (s *settings) block(ctx context.Context, sides *[2]side, load string, n int) error {
	var before [2]time.Duration
	for i := range sides {
		sides[i].operations = 0
		var err error
		if before[i], err = sides[i].server.CPU(); err != nil {
			return err
		}
	}
	for slice := range 2 * s.slices {
		i := turn(slice, n)
		o := s.options(sides[i].server.Addr)
		o.Workload = loadgen.Workload(load)
		r, err := loadgen.Run(ctx, o)
		if err == nil && r.Refused > 0 {
			err = fmt.Errorf("bench: %d requests were refused: %w", r.Refused, r.FirstCode)
		}
		if err != nil {
			return err
		}
		sides[i].operations += r.Operations
	}
	for i := range sides {
		after, err := sides[i].server.CPU()
		if err != nil {
			return err
		}
		sides[i].cpu = after - before[i]
	}
	return nil
}
