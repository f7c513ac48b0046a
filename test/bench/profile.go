//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

// profileServer is the command with which this program starts itself as a server that can
// profile itself.
const profileServer = "profile-server"

// profileLoads prints where a server's CPU time goes under each load, by step.
func profileLoads(ctx context.Context, args []string) error {
	p := &plan{}
	f := flag.NewFlagSet("bench profile", flag.ExitOnError)
	f.DurationVar(&p.duration, "duration", 10*time.Second, "how long each load is measured")
	f.DurationVar(&p.warmUp, "warm-up", 6*time.Second, "load before anything is measured")
	f.IntVar(&p.connections, "connections", 8, "connections")
	f.IntVar(&p.inFlight, "in-flight", 64, "requests in flight on each connection")
	f.IntVar(&p.dataBytes, "data-bytes", 100, "data of each znode")
	f.IntVar(&p.size, "size", 1, "servers; of more than one the leader, which has all connections, and a follower are profiled")
	keep := f.String("keep", "", "a directory for the profiles, for go tool pprof")
	merge := f.String("merge", "", "a file for all profiles of -keep in one, of earlier runs too")
	if err := f.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "conclave-profile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if *keep == "" {
		*keep = dir
	} else if err := os.MkdirAll(*keep, 0o755); err != nil {
		return err
	}
	servers, end, err := startProfiled(ctx, dir, p.size)
	if err != nil {
		return err
	}
	defer end()
	if err := loadgen.Fill(ctx, p.options(servers[0].addr)); err != nil {
		return err
	}
	var columns []column
	for _, w := range []loadgen.Workload{loadgen.Set, loadgen.Get, loadgen.Mix, loadgen.Create} {
		o := p.options(servers[0].addr)
		o.Workload, o.Duration = w, p.warmUp
		if _, err := loadgen.Run(ctx, o); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, w)
		o.Duration = p.duration
		of, err := profileLoad(ctx, servers, o, *keep)
		if err != nil {
			return err
		}
		columns = append(columns, of...)
	}
	subject := "one server"
	if p.size == 1 {
		fmt.Fprintln(os.Stderr, "start")
		of, err := profileStart(ctx, servers[0], dir, *keep)
		if err != nil {
			return err
		}
		columns = append(columns, of)
	} else {
		subject = fmt.Sprintf("the leader and a follower of %d servers", p.size)
	}
	fmt.Printf("%s\n%s, %d connections, %d requests in flight on each, %d bytes of data, %v each; CPU ns for each operation\n\n",
		machine(), subject, p.connections, p.inFlight, p.dataBytes, p.duration)
	fmt.Print(stepsText(columns))
	if *merge != "" {
		return mergeProfiles(ctx, *keep, *merge)
	}
	return nil
}

// mergeProfiles merges the profiles of a directory into one file, which the compiler can
// use with go build -pgo.
func mergeProfiles(ctx context.Context, dir, file string) error {
	profiles, err := filepath.Glob(filepath.Join(dir, "*.pprof"))
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-proto", "-output", file}, profiles...)...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("bench: go tool pprof: %w: %s", err, out)
	}
	return nil
}

// profileLoad profiles servers, of which the first one has the load, and returns a column
// for each.
func profileLoad(ctx context.Context, servers []*profiled, o loadgen.Options, keep string) ([]column, error) {
	names := []string{string(o.Workload)}
	if len(servers) > 1 {
		names = []string{names[0] + "-leader", names[0] + "-follower"}
	}
	file := func(i int) string { return filepath.Join(keep, names[i]+".pprof") }
	for i, s := range servers {
		if _, err := s.ask("start " + file(i)); err != nil {
			return nil, err
		}
	}
	r, err := loadgen.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	columns := make([]column, len(servers))
	for i, s := range servers {
		if columns[i], err = s.stop(ctx, names[i], file(i), r.Operations); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// profileStart kills the server and profiles the start of the next one on its directory.
// The operations in this column are znodes.
func profileStart(ctx context.Context, s *profiled, dir, keep string) (c column, err error) {
	znodes, err := s.ask("znodes")
	if err != nil {
		return c, err
	}
	n, err := strconv.ParseInt(znodes, 10, 64)
	if err != nil {
		return c, err
	}
	s.end()
	file := filepath.Join(keep, "start.pprof")
	next, err := startOneProfiled(filepath.Join(dir, "1"), 1, "", file)
	if err != nil {
		return c, err
	}
	defer next.end()
	for {
		if _, err := next.ask("leads"); err == nil {
			return next.stop(ctx, "start", file, n)
		}
		select {
		case <-ctx.Done():
			return c, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A column shows where the CPU time of a load was spent.
type column struct {
	name       string
	steps      map[string]time.Duration
	operations int64
}

// stepsText returns the table; the most expensive steps of the first load come first.
func stepsText(columns []column) string {
	var b strings.Builder
	names := append(stepNames(), otherStep)
	slices.SortStableFunc(names, func(x, y string) int {
		return int(columns[0].steps[y] - columns[0].steps[x])
	})
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "step\t")
	sums := make([]time.Duration, len(columns))
	for i, c := range columns {
		fmt.Fprintf(w, "%s\t%%\t", c.name)
		for _, d := range c.steps {
			sums[i] += d
		}
	}
	fmt.Fprintln(w)
	for _, name := range names {
		fmt.Fprintf(w, "%s\t", name)
		for i, c := range columns {
			d := c.steps[name]
			fmt.Fprintf(w, "%.0f\t%.1f\t", float64(d)/float64(c.operations), 100*float64(d)/float64(max(1, sums[i])))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "all\t")
	for i, c := range columns {
		fmt.Fprintf(w, "%.0f\t100.0\t", float64(sums[i])/float64(c.operations))
	}
	fmt.Fprintln(w)
	w.Flush()
	return b.String()
}

// A profiled is a server in a separate process. Lines on its standard input tell it when to
// profile, and it answers each with a line.
type profiled struct {
	addr  string
	stdin io.Writer
	out   *bufio.Reader
	end   func()
}

// startProfiled starts servers, and returns the standalone one, or the leader and one
// follower.
func startProfiled(ctx context.Context, dir string, size int) (some []*profiled, end func(), err error) {
	var all []*profiled
	end = func() {
		for _, s := range all {
			s.end()
		}
	}
	members, err := loopbackMembers(size)
	for id := 1; id <= size && err == nil; id++ {
		var s *profiled
		if s, err = startOneProfiled(filepath.Join(dir, strconv.Itoa(id)), id, members, ""); err == nil {
			all = append(all, s)
		}
	}
	for err == nil {
		for i, s := range all {
			if _, err := s.ask("leads"); err == nil {
				return append([]*profiled{s}, all[(i+1)%size:][:min(1, size-1)]...), end, nil
			}
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	end()
	return nil, nil, err
}

// loopbackMembers returns the server lines of an ensemble on free ports; none for a
// standalone server.
func loopbackMembers(size int) (string, error) {
	var lines strings.Builder
	for id := 1; id <= size && size > 1; id++ {
		var ports [2]int
		for i := range ports {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return "", err
			}
			defer l.Close() // only after all ports were chosen
			ports[i] = l.Addr().(*net.TCPAddr).Port
		}
		fmt.Fprintf(&lines, "server.%d=127.0.0.1:%d:%d\n", id, ports[0], ports[1])
	}
	return lines.String(), nil
}

// startOneProfiled starts a server. If a file is given, it profiles itself from the start.
func startOneProfiled(dataDir string, id int, members, file string) (*profiled, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self, profileServer, dataDir, strconv.Itoa(id), members, file)
	command.Stderr = os.Stderr
	out, err1 := command.StdoutPipe()
	in, err2 := command.StdinPipe()
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("bench: pipes: %w, %w", err1, err2)
	}
	end, err := childtest.Begin(command)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	s := &profiled{stdin: in, out: bufio.NewReader(out), end: sync.OnceFunc(end)}
	if s.addr, err = s.out.ReadString('\n'); err != nil {
		end()
		return nil, fmt.Errorf("bench: the server did not start: %w", err)
	}
	s.addr = strings.TrimSpace(s.addr)
	return s, nil
}

// ask sends a line and waits for its answer, and returns what follows "ok".
func (s *profiled) ask(line string) (string, error) {
	if _, err := fmt.Fprintln(s.stdin, line); err != nil {
		return "", err
	}
	answer, err := s.out.ReadString('\n')
	if err != nil {
		return "", err
	}
	answer = strings.TrimSpace(answer)
	if rest, ok := strings.CutPrefix(answer, "ok"); ok {
		return strings.TrimSpace(rest), nil
	}
	return "", fmt.Errorf("bench: the server answers %q to %q", answer, line)
}

// stop ends a profile, which is written to a file, and returns where the CPU time of the
// operations was spent.
func (s *profiled) stop(ctx context.Context, name, file string, operations int64) (column, error) {
	if _, err := s.ask("stop"); err != nil {
		return column{}, err
	}
	traces, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", file).Output()
	if err != nil {
		return column{}, fmt.Errorf("bench: go tool pprof %s: %w", file, err)
	}
	return column{name, bySteps(string(traces)), operations}, nil
}

// serveProfiled runs the server's process: like conclave serve, without the ports for
// operators.
func serveProfiled(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("bench: %s takes a directory, a number, the lines of an ensemble and a file for a profile of its start", profileServer)
	}
	if args[3] != "" {
		if err := startProfile(args[3]); err != nil {
			return err
		}
	}
	id, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("bench: the number of a server: %w", err)
	}
	config := server.Default()
	if args[2] != "" {
		if config.Ensemble, err = ensemble.Parse(args[2]); err != nil {
			return err
		}
		config.ID = quorum.ID(id)
	}
	config.FS, config.DataDir, config.ClientAddr = osfs.New(), args[0], "127.0.0.1:0"
	config.ConnsPerIPMax, config.Logger = 0, slog.New(slog.DiscardHandler)
	s, err := server.New(config)
	if err != nil {
		return err
	}
	go server.TightenHeap(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	fmt.Println(s.Addr())
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			answer, err := profileAs(s, lines.Text())
			if err != nil {
				fmt.Println(err)
				continue
			}
			fmt.Println("ok", answer)
		}
	}()
	return <-ended
}

// profileAs begins or ends a profile, reports whether the server leads or is standalone, or
// returns its number of znodes.
func profileAs(s *server.Server, line string) (answer string, err error) {
	name, begins := strings.CutPrefix(line, "start ")
	switch {
	case begins:
		return "", startProfile(name)
	case line == "stop":
		pprof.StopCPUProfile() // this writes the file
		return "", nil
	case line == "znodes":
		return strconv.Itoa(s.Status().Znodes), nil
	case !s.Serves() || s.Config().Ensemble != nil && !s.Leads():
		return "", errors.New("no")
	}
	return "", nil
}

func startProfile(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return pprof.StartCPUProfile(file)
}
