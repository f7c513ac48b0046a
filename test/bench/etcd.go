//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/bench/middle"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/stores"
)

// A besideEtcd is the command line of a comparison with etcd, and its results.
type besideEtcd struct {
	size        int
	works       []string
	repetitions int
	duration    time.Duration
	inFlight    int
	asJSON      bool

	// Found are values by kind, work and figure, one for each repetition.
	Found map[string]map[string]map[string][]float64
}

// etcdWorks are the works for both stores, with their description for each.
var etcdWorks = []struct{ name, etcd, conclave string }{
	{"get", "range, serializable", "getData"},
	{"get-latest", "range, linearizable", "sync and getData, sent together"},
	{"set", "put", "setData"},
	{"create", "put of a new key", "create2"},
	{"ephemeral", "put with a lease, delete", "create of an ephemeral, delete"},
	{"lease", "grant, put with it, revoke", "session on a connection of its own, ephemeral, close"},
	{"watch", "put, 100 watches told", "setData, 100 persistent watches told"},
}

// watchConnections is the number of connections, with one watch each.
const watchConnections = 100

const (
	kindEtcd     = "etcd"
	kindConclave = "conclave"
)

func parseEtcd(args []string) (*besideEtcd, error) {
	e := &besideEtcd{Found: map[string]map[string]map[string][]float64{kindEtcd: {}, kindConclave: {}}}
	var names []string
	for _, w := range etcdWorks {
		names = append(names, w.name)
	}
	f := flag.NewFlagSet("bench etcd", flag.ExitOnError)
	f.IntVar(&e.size, "size", 1, "servers, 1 or 3")
	works := f.String("works", strings.Join(names, ","), "what to measure")
	f.IntVar(&e.repetitions, "repetitions", 3, "how often; each figure is the median")
	f.DurationVar(&e.duration, "duration", 3*time.Second, "how long each is measured")
	f.IntVar(&e.inFlight, "in-flight", 8, "operations in flight on each of 8 connections")
	f.BoolVar(&e.asJSON, "json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	e.works = strings.Split(*works, ",")
	for _, work := range e.works {
		if !slices.Contains(names, work) {
			return nil, fmt.Errorf("bench: no work %q: say some of %s", work, strings.Join(names, ","))
		}
	}
	if e.size != 1 && e.size != 3 || e.repetitions < 1 || e.duration <= 0 || e.inFlight < 1 {
		return nil, errors.New("bench: size is 1 or 3, repetitions, duration and in-flight are positive")
	}
	return e, nil
}

func (e *besideEtcd) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "conclave-etcd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := buildWorkers(ctx, dir, false)
	if err != nil {
		return err
	}
	if err := servers.Conclave().Install(ctx); err != nil {
		return err
	}
	turn := []string{kindEtcd, kindConclave}
	for n := range e.repetitions {
		for _, kind := range turn {
			fmt.Fprintf(os.Stderr, "%s, %d of %d\n", kind, n+1, e.repetitions)
			err := e.on(ctx, kind, func(url string, cpu func() (time.Duration, error)) error {
				return e.measure(ctx, w.goWorker[0], kind, url, cpu)
			})
			if err != nil {
				return fmt.Errorf("bench: %s: %w", kind, err)
			}
		}
		slices.Reverse(turn)
	}
	if e.asJSON {
		return json.NewEncoder(os.Stdout).Encode(e.Found)
	}
	fmt.Print(e.text())
	return nil
}

// on runs f with fresh servers.
func (e *besideEtcd) on(ctx context.Context, kind string, f func(url string, cpu func() (time.Duration, error)) error) error {
	if kind == kindConclave {
		return program{servers.Conclave()}.target(ctx, &plan{size: e.size}, func(on target) error {
			return f("zookeeper://"+strings.Join(on.addrs, ","), on.cpu)
		})
	}
	dir, err := os.MkdirTemp("", "conclave-etcd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name := "etcd"
	if e.size > 1 {
		name = "etcd-cluster"
	}
	s, err := stores.Launch(ctx, name, dir)
	if err != nil {
		return err
	}
	defer s.Stop()
	return f(s.URL, s.CPU)
}

// measure fills the store and runs each work on it.
func (e *besideEtcd) measure(ctx context.Context, worker, kind, url string, cpu func() (time.Duration, error)) error {
	if out, err := exec.CommandContext(ctx, worker, "load", "-url", url, "-work", "fill").CombinedOutput(); err != nil {
		return fmt.Errorf("fill: %w\n%s", err, out)
	}
	for _, work := range e.works {
		args := []string{"load", "-url", url, "-work", work, "-in-flight", fmt.Sprint(e.inFlight), "-for", e.duration.String()}
		if work == "watch" {
			args = append(args, "-connections", fmt.Sprint(watchConnections), "-watchers", fmt.Sprint(watchConnections))
		}
		if err := e.work(worker, kind, work, args, cpu); err != nil {
			return fmt.Errorf("%s: %w", work, err)
		}
	}
	return nil
}

// work runs one work in a worker, and reads the CPU time of the servers before and after.
func (e *besideEtcd) work(worker, kind, work string, args []string, cpu func() (time.Duration, error)) error {
	command := exec.Command(worker, args...)
	command.Stderr = os.Stderr
	in, err1 := command.StdinPipe()
	out, err2 := command.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	end, err := childtest.Begin(command)
	if err != nil {
		return err
	}
	defer end()
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	before, err1 := cpu()
	_, err2 = io.WriteString(in, "begin\n")
	line, err3 := lines.ReadBytes('\n')
	after, err4 := cpu()
	var m struct {
		Operations int64
		Seconds    float64
		P50, P99   time.Duration
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	if m.Operations == 0 {
		return errors.New("nothing was done")
	}
	e.add(kind, work, map[string]float64{perSecond: float64(m.Operations) / m.Seconds, serverCPU: micros(after-before) / float64(m.Operations),
		median: micros(m.P50), tail: micros(m.P99)})
	return nil
}

// add adds the figures of a repetition.
func (e *besideEtcd) add(kind, work string, figures map[string]float64) {
	found := e.Found[kind]
	if found[work] == nil {
		found[work] = map[string][]float64{}
	}
	for name, value := range figures {
		found[work][name] = append(found[work][name], value)
	}
}

// text returns the table: medians, and etcd's in multiples of ours.
func (e *besideEtcd) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d server(s), 8 connections, %d operations in flight on each, 100 bytes; watch: 100 connections, one operation at a time\n\n",
		machine(), e.size, e.inFlight)
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	figures := []string{serverCPU, perSecond, median, tail}
	fmt.Fprint(w, "\t")
	for _, figure := range figures {
		fmt.Fprintf(w, "%s: etcd\tConclave\ttimes\t", figure)
	}
	fmt.Fprintln(w)
	for _, work := range e.works {
		fmt.Fprintf(w, "%s\t", work)
		for _, figure := range figures {
			theirs, ours := middle.Of(e.Found[kindEtcd][work][figure]), middle.Of(e.Found[kindConclave][work][figure])
			fmt.Fprintf(w, "%.1f\t%.1f\t%.2f\t", theirs, ours, theirs/ours)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a builder does not fail
	return b.String()
}
