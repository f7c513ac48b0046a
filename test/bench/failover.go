//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
)

// A failover is the command line of a measurement of failing leaders, and its results.
type failover struct {
	kinds      []servers.Kind
	rounds     int
	tickTime   time.Duration
	syncLimit  int
	config     []string
	onlyKilled bool

	gaps map[string][]time.Duration // by kind and way of failing
}

// The ways in which a leader fails.
const (
	killed  = "killed"
	stopped = "stopped"
)

const (
	// killedGoal is the largest median gap after a kill that the project aims at, and
	// stoppedSlack is allowed on top of the time limit for silence.
	killedGoal   = 60 * time.Millisecond
	stoppedSlack = 100 * time.Millisecond

	// calm is how many writes must succeed between two failures.
	calm = 200
)

func parseFailover(args []string) (*failover, error) {
	f := &failover{gaps: map[string][]time.Duration{}}
	flags := flag.NewFlagSet("bench failover", flag.ExitOnError)
	names := flags.String("servers", "apache-"+servers.Apache39+",apache-"+servers.Apache38+",conclave", "what to measure")
	config := flags.String("config", "", "further lines of zoo.cfg, separated by commas")
	flags.IntVar(&f.rounds, "rounds", 10, "how often a leader fails, in each way")
	flags.DurationVar(&f.tickTime, "tick", 500*time.Millisecond, "tickTime")
	flags.IntVar(&f.syncLimit, "sync-limit", 2, "syncLimit: so many ticks a leader may be silent")
	flags.BoolVar(&f.onlyKilled, "only-killed", false, "do not measure leaders that are stopped")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if f.rounds < 1 || f.tickTime <= 0 || f.syncLimit < 1 {
		return nil, fmt.Errorf("bench: rounds, tick and sync-limit must be positive")
	}
	if *config != "" {
		f.config = strings.Split(*config, ",")
	}
	var err error
	f.kinds, err = named(*names)
	return f, err
}

// silence returns how long a leader may be silent.
func (f *failover) silence() time.Duration { return f.tickTime * time.Duration(f.syncLimit) }

func (f *failover) run(ctx context.Context) error {
	for _, k := range f.kinds {
		if err := f.measure(ctx, k); err != nil {
			return fmt.Errorf("bench: failover of %s: %w", k.Name(), err)
		}
	}
	fmt.Print(f.text())
	return nil
}

// measure lets the leader of an ensemble of three fail repeatedly, while one client that
// knows all three servers writes without pause.
func (f *failover) measure(ctx context.Context, k servers.Kind) error {
	e, err := servers.NewEnsemble(ctx, servers.EnsembleOptions{Kinds: []servers.Kind{k, k, k},
		Config: append([]string{fmt.Sprintf("tickTime=%d", f.tickTime.Milliseconds()), fmt.Sprintf("syncLimit=%d", f.syncLimit)}, f.config...)})
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.Start(ctx); err != nil {
		return err
	}
	// The session must outlive a stopped leader. A client that is attached to it notices
	// only after two thirds of its timeout: see Avoid in round. Also, it must not wait long
	// when it tries a stopped server, whose port still accepts connections.
	l, err := workload.Start(ctx, workload.Options{Servers: e.Addrs(), Writers: 1, Kept: 1000,
		SessionTimeout: 8 * f.silence(), ConnectTimeout: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	defer l.Close()
	for _, way := range []string{killed, stopped} {
		if way == stopped && f.onlyKilled {
			continue
		}
		for n := range f.rounds {
			gap, err := f.round(ctx, e, l, way)
			if err != nil {
				return fmt.Errorf("%w; %s", err, e.Describe())
			}
			fmt.Fprintf(os.Stderr, "%s, leader %s, %d of %d: %.1f ms\n", k.Name(), way, n+1, f.rounds, ms(gap))
			f.gaps[k.Name()+" "+way] = append(f.gaps[k.Name()+" "+way], gap)
		}
	}
	l.Finish()
	breaches, err := l.Verify(ctx, strings.Split(e.Addrs(), ","))
	if err != nil {
		return err
	}
	if len(breaches) > 0 {
		return fmt.Errorf("promises were broken: %s", strings.Join(breaches, "; "))
	}
	return nil
}

// round lets the leader fail once, and returns the longest gap between writes.
func (f *failover) round(ctx context.Context, e *servers.Ensemble, l *workload.Load, way string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	leader, err := e.AwaitLeader(ctx)
	if err != nil {
		return 0, err
	}
	if way == stopped {
		if err := l.Avoid(ctx, leader.Addr); err != nil {
			return 0, err
		}
	}
	if err := l.Await(ctx, calm); err != nil {
		return 0, err
	}
	failed := time.Now()
	if way == stopped {
		leader.Pause()
	} else if err := leader.Kill(); err != nil {
		return 0, err
	}
	if err := l.Await(ctx, calm); err != nil {
		return 0, err
	}
	gap := l.GapSince(failed)
	if way == stopped {
		leader.Resume()
	} else if err := leader.Start(ctx); err != nil {
		return 0, err
	}
	return gap, leader.AwaitMode(ctx, "follower")
}

func ms(d time.Duration) float64 { return micros(d) / 1000 }

// text returns the table.
func (f *failover) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nensemble of 3, one client, one write at a time; gap between two acknowledged writes, ms, %d rounds;\n", machine(), f.rounds)
	fmt.Fprintf(&b, "a leader may be silent for %v (tickTime x syncLimit)\n\n", f.silence())
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tleader\tmedian\tshortest\tlongest\tgoal\t")
	for _, way := range []string{killed, stopped} {
		for _, k := range f.kinds {
			gaps := slices.Sorted(slices.Values(f.gaps[k.Name()+" "+way]))
			if len(gaps) == 0 {
				continue
			}
			n := len(gaps)
			middle := (gaps[(n-1)/2] + gaps[n/2]) / 2
			fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.1f\t%s\t\n", k.Name(), way, ms(middle), ms(gaps[0]), ms(gaps[n-1]), f.goal(k, way, middle))
		}
	}
	w.Flush()
	return b.String()
}

// goal returns a remark whether Conclave is as fast as it should be.
func (f *failover) goal(k servers.Kind, way string, median time.Duration) string {
	if k != servers.Conclave() {
		return ""
	}
	limit := killedGoal
	if way == stopped {
		limit = f.silence() + stoppedSlack
	}
	if median <= limit {
		return fmt.Sprintf("<= %d met", limit.Milliseconds())
	}
	return fmt.Sprintf("<= %d MISSED", limit.Milliseconds())
}
