//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// An electionCost is the command line of a measurement of the cost of elections, and its
// results.
type electionCost struct {
	rivals     []rival
	crowds     []crowd
	lease      time.Duration
	longLease  time.Duration
	window     time.Duration
	rounds     int
	asJSON     bool
	progress   func(format string, args ...any)
	Costs      []cost
	Successors []successor
}

// A cost is the cost of a crowd while nothing happens.
type cost struct {
	Store, Way string
	Crowd      string
	Lease      time.Duration
	// Elected is how long it took until all elections were led.
	Elected time.Duration
	// Requests and Heartbeats are per second; PerLease is requests of one candidate per
	// lease.
	Requests, Heartbeats, PerLease float64
	// CPU is the CPU time of the candidates' process in ms per second; StoreCPU is the
	// store's.
	CPU, StoreCPU float64
	// Memory is what the process has allocated, in bytes.
	Memory int64
	Failed string `json:",omitempty"` // why there are no figures
}

// A successor is the time for which elections had no leader after the leader's process was
// killed.
type successor struct {
	Store, Way string
	Lease      time.Duration
	After      []time.Duration
}

// manyCandidates is the number of candidates from which the long lease is used.
const manyCandidates = 1000

func parseElections(args []string) (*electionCost, error) {
	e := &electionCost{progress: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	f := flag.NewFlagSet("bench elections", flag.ExitOnError)
	only := f.String("only", "", "STORE or STORE:WAY, separated by commas; all if empty")
	crowds := f.String("crowds", "1x1/1,100x1/100,1x100/1", "CANDIDATESxELECTIONS/CLIENTS, separated by commas; empty for none")
	f.DurationVar(&e.lease, "lease", 4*time.Second, "the lease, also of those who are killed")
	f.DurationVar(&e.longLease, "long-lease", time.Minute, fmt.Sprintf("the lease where there are %d candidates or more", manyCandidates))
	f.DurationVar(&e.window, "window", 16*time.Second, "how long each crowd is watched; with the long lease for that lease")
	f.IntVar(&e.rounds, "rounds", 5, "how often a leader is killed")
	f.BoolVar(&e.asJSON, "json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if e.lease < time.Second || e.longLease < time.Second || e.window <= 0 || e.rounds < 0 {
		return nil, fmt.Errorf("bench: leases are a second or more, window and rounds not negative")
	}
	if *crowds != "" {
		for text := range strings.SplitSeq(*crowds, ",") {
			c, err := parseCrowd(text)
			if err != nil {
				return nil, err
			}
			e.crowds = append(e.crowds, c)
		}
	}
	var err error
	e.rivals, err = chosenRivals(*only)
	return e, err
}

// chosenRivals returns the rivals in a list of stores, or of stores with ways.
func chosenRivals(only string) ([]rival, error) {
	if only == "" {
		return rivals, nil
	}
	var chosen []rival
	for name := range strings.SplitSeq(only, ",") {
		before := len(chosen)
		for _, r := range rivals {
			if name == r.store || name == r.store+":"+r.way {
				chosen = append(chosen, r)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("bench: no rival %q", name)
		}
	}
	return chosen, nil
}

func (e *electionCost) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "conclave-elections-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := buildWorkers(ctx, dir, slices.ContainsFunc(e.rivals, func(r rival) bool { return r.way == "curator" }))
	if err != nil {
		return err
	}
	for _, r := range e.rivals {
		for _, c := range e.crowds {
			one, err := e.crowd(ctx, w, r, c)
			if ctx.Err() != nil {
				return err
			}
			if err != nil {
				one.Failed = err.Error()
			}
			e.progress("%+v", one)
			e.Costs = append(e.Costs, one)
		}
		if e.rounds == 0 {
			continue
		}
		s, err := e.kill(ctx, w, r)
		if err != nil {
			return fmt.Errorf("bench: %s on %s: %w", libraries[r.way], r.store, err)
		}
		e.progress("%+v", s)
		e.Successors = append(e.Successors, s)
	}
	if e.asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(e)
	}
	fmt.Print(e.text())
	return nil
}

// arena runs f with a fresh store.
func (e *electionCost) arena(ctx context.Context, r rival, f func(*arena) error) error {
	dir, err := os.MkdirTemp("", "conclave-arena-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a, err := openArena(ctx, r.store, dir)
	if err != nil {
		return err
	}
	defer a.close()
	return f(a)
}

// crowd measures the cost of candidates that lead or wait.
func (e *electionCost) crowd(ctx context.Context, w workers, r rival, c crowd) (one cost, err error) {
	lease, window := e.lease, e.window
	if c.all() >= manyCandidates {
		lease, window = e.longLease, e.longLease
	}
	one = cost{Store: r.store, Way: r.way, Crowd: c.String(), Lease: lease}
	return one, e.arena(ctx, r, func(a *arena) error {
		began := time.Now()
		p, err := startParty(w.line(r, a.url, c, lease, "c"))
		if err != nil {
			return err
		}
		defer p.end()
		// All begin at once, and a store needs time for them.
		within, cancel := context.WithTimeout(ctx, 2*time.Minute+lease)
		defer cancel()
		if err := p.awaitLed(within, c.elections); err != nil {
			return err
		}
		one.Elected = time.Since(began)
		if err := pauseFor(ctx, max(3*e.lease, lease)); err != nil { // by then the waiting candidates are there, too
			return err
		}
		if err := p.calmDown(within); err != nil {
			return err
		}
		if one.Memory, err = p.memory(); err != nil {
			return err
		}
		return one.watch(ctx, a, p, c, window)
	})
}

// watch counts for the length of window.
func (one *cost) watch(ctx context.Context, a *arena, p *party, c crowd, window time.Duration) error {
	type reading struct {
		at         time.Time
		counted    counted
		cpu, store time.Duration
	}
	read := func() (r reading, err error) {
		if r.counted, err = a.counted(ctx); err != nil {
			return r, err
		}
		if r.cpu, err = p.cpu(); err != nil {
			return r, err
		}
		r.store, err = a.CPU()
		r.at = time.Now()
		return r, err
	}
	before, err := read()
	if err != nil {
		return err
	}
	if err := pauseFor(ctx, window); err != nil {
		return err
	}
	after, err := read()
	if err != nil {
		return err
	}
	seconds := after.at.Sub(before.at).Seconds()
	one.Requests = float64(after.counted.requests-before.counted.requests) / seconds
	one.Heartbeats = float64(after.counted.heartbeats-before.counted.heartbeats) / seconds
	one.PerLease = one.Requests * one.Lease.Seconds() / float64(c.all())
	one.CPU = ms(after.cpu-before.cpu) / seconds
	one.StoreCPU = ms(after.store-before.store) / seconds
	return nil
}

// kill repeatedly kills the leader's process while another candidate waits.
func (e *electionCost) kill(ctx context.Context, w workers, r rival) (successor, error) {
	s := successor{Store: r.store, Way: r.way, Lease: e.lease}
	return s, e.arena(ctx, r, func(a *arena) error {
		enter := func(n int) (*party, error) {
			return startParty(w.line(r, a.url, crowd{1, 1, 1}, e.lease, fmt.Sprint("p", n)))
		}
		leader, err := enter(0)
		if err != nil {
			return err
		}
		defer func() { leader.end() }()
		within, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		if err := leader.awaitLed(within, 1); err != nil {
			return err
		}
		for n := range e.rounds {
			next, err := enter(n + 1)
			if err != nil {
				return err
			}
			// By then it waits, and the leader is anywhere between two renewals.
			if err := pauseFor(ctx, e.lease+rand.N(e.lease/2)+2*time.Second); err != nil {
				next.end()
				return err
			}
			killed := time.Now()
			leader.end()
			leader = next
			within, cancel := context.WithTimeout(ctx, time.Minute+5*e.lease)
			err = leader.awaitLed(within, 1)
			cancel()
			if err != nil {
				return err
			}
			s.After = append(s.After, leader.ledAt.Sub(killed))
		}
		return nil
	})
}

// pauseFor lets time pass, because time is what is measured.
func pauseFor(ctx context.Context, lasts time.Duration) error {
	select {
	case <-time.After(lasts):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// text returns the tables.
func (e *electionCost) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\ncrowd: candidates of each election x elections / clients of the store, all in one process\n\n", machine())
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "store\tlibrary\tcrowd\tlease s\trequests/s\tof one, a lease\theartbeats/s\tCPU ms/s\tstore's CPU ms/s\tMiB\tKiB of one\tall led after s\t")
	for _, c := range e.Costs {
		if c.Failed != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\tfailed: %s\t\t\t\t\t\t\t\t\n", c.Store, libraries[c.Way], c.Crowd, c.Lease.Seconds(), c.Failed)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%.1f\t%.2f\t%.1f\t%.2f\t%.1f\t%.1f\t%s\t%.1f\t\n", c.Store, libraries[c.Way], c.Crowd, c.Lease.Seconds(),
			c.Requests, c.PerLease, c.Heartbeats, c.CPU, c.StoreCPU, float64(c.Memory)/(1<<20), e.each(&c), c.Elected.Seconds())
	}
	_ = w.Flush() // a builder does not fail
	fmt.Fprintf(&b, "\nfrom the kill of a leader's process to its successor, in leases\n\n")
	w = tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "store\tlibrary\tlease s\tmedian\tshortest\tlongest\t")
	for _, s := range e.Successors {
		after := slices.Sorted(slices.Values(s.After))
		leases := func(d time.Duration) float64 { return d.Seconds() / s.Lease.Seconds() }
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f\t%.2f\t%.2f\t\n", s.Store, libraries[s.Way], s.Lease.Seconds(),
			leases(after[len(after)/2]), leases(after[0]), leases(after[len(after)-1]))
	}
	_ = w.Flush()
	return b.String()
}

// each returns the memory of one additional candidate: the crowd's, minus a single
// candidate's.
func (e *electionCost) each(c *cost) string {
	for _, alone := range e.Costs {
		crowd, err := parseCrowd(c.Crowd)
		if err == nil && alone.Store == c.Store && alone.Way == c.Way && alone.Crowd == "1x1/1" && alone.Failed == "" && crowd.all() > 1 {
			return fmt.Sprintf("%.1f", float64(c.Memory-alone.Memory)/1024/float64(crowd.all()-1))
		}
	}
	return ""
}
