package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/cli"
	"github.com/conclave-project/conclave/sim"
	"github.com/spf13/cobra"
)

// simFlags is the flags of `conclave sim`.
type simFlags struct {
	outputFlag
	seeds   int
	from    uint64
	seed    uint64
	jobs    int
	shrink  bool
	plan    string
	save    string
	mutant  string
	mutants bool
}

// simulated is the result of many runs.
type simulated struct {
	Seeds        int          `json:"seeds"`
	From         uint64       `json:"from"`
	Failed       []failedSeed `json:"failed"`
	SimulatedS   float64      `json:"simulatedSeconds"`
	CPUS         float64      `json:"cpuSeconds"`
	PerSecond    float64      `json:"simulatedSecondsPerSecondAndCore"`
	WallS        float64      `json:"wallSeconds"`
	Transactions int          `json:"transactions"`
	tally        sim.Tally
}

type failedSeed struct {
	Seed uint64 `json:"seed"`
	AtMs int64  `json:"atMs"`
	Why  string `json:"why"`
}

// foundMutant is how a known bug was found.
type foundMutant struct {
	Mutant string  `json:"mutant"`
	Origin string  `json:"origin"`
	What   string  `json:"what"`
	Found  bool    `json:"found"`
	Seeds  int     `json:"seeds"` // that were run
	TimeS  float64 `json:"seconds"`
	By     string  `json:"by"`
}

func newSim() *cobra.Command {
	v := &simFlags{}
	c := &cobra.Command{
		Use:   "sim",
		Short: "Run simulated ensembles through faults, and check what they promise",
		Long: `Runs whole ensembles in one thread each, on virtual time: servers with their
disks, the bytes between them, clients, and kills, power losses, cuts, slow and
broken disks, lost disks and strange clocks. Everything of a run follows from
its seed. While it runs it is compared with what ZooKeeper promises.

With --seeds many runs are made and counted. With --seed one is made and its
trace printed: ms, who, what, whom, zxid, detail. --shrink makes a failing run
smaller first; --save keeps it in a file that --plan plays again. --mutants puts
known bugs back one at a time, and says after how many seeds each was found.

The exit code is 1 if a promise was broken, or a mutant was not found.`,
		Example: `  conclave sim --seeds 1000
  conclave sim --seed 53                   # the trace of one run
  conclave sim --seed 53 --shrink --save small.json
  conclave sim --plan small.json
  conclave sim --mutants`,
		Args: cobra.NoArgs,
		RunE: v.run,
	}
	v.add(c)
	f := c.Flags()
	f.IntVar(&v.seeds, "seeds", 200, "how many seeds to run")
	f.Uint64Var(&v.from, "from", 1, "the first of them")
	f.Uint64Var(&v.seed, "seed", 0, "run this one and print its trace")
	f.IntVar(&v.jobs, "jobs", runtime.NumCPU(), "runs side by side")
	f.BoolVar(&v.shrink, "shrink", false, "make the run of --seed or --plan as small as it goes while it fails")
	f.StringVar(&v.plan, "plan", "", "run the plan in this file and print its trace")
	f.StringVar(&v.save, "save", "", "write the plan of --seed to this file")
	f.StringVar(&v.mutant, "mutant", "", "put this known bug back (see --mutants)")
	f.BoolVar(&v.mutants, "mutants", false, "put every known bug back in turn, or that of --mutant, with up to --seeds seeds each")
	return c
}

func (v *simFlags) run(c *cobra.Command, _ []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	var mutant sim.Mutant
	if v.mutant != "" {
		if err := mutant.UnmarshalText([]byte(v.mutant)); err != nil {
			return cli.Usage("conclave sim --mutants has their names in the end", "%w", err)
		}
	}
	if v.seeds < 1 || v.jobs < 1 {
		return cli.Usage("conclave sim --help shows what each flag takes", "--seeds and --jobs are at least 1")
	}
	debug.SetGCPercent(400) // runs are short and make much garbage
	switch {
	case v.plan != "" || c.Flags().Changed("seed"):
		return v.one(c, mutant)
	case v.mutants:
		return v.hunt(c, p, mutant)
	}
	return v.many(c, p, mutant)
}

// one runs a single plan and prints its trace.
func (v *simFlags) one(c *cobra.Command, mutant sim.Mutant) error {
	plan := sim.Draw(v.seed)
	if v.plan != "" {
		content, err := os.ReadFile(v.plan)
		if err == nil {
			err = json.Unmarshal(content, &plan)
		}
		if err != nil {
			return cli.Failed(fmt.Errorf("read the plan: %w", err), "--save writes such a file")
		}
	}
	if mutant != sim.None {
		plan.Mutant = mutant
	}
	if v.shrink {
		bar := newBar(c.ErrOrStderr(), 0)
		plan = sim.Shrink(plan, func(tried int, p sim.Plan) {
			bar.show(fmt.Sprintf("%d runs tried: %d faults, %d servers, %d clients, %d ms", tried, len(p.Faults), p.Participants+p.Observers, p.Clients, p.WildMs))
		}).Plan
		bar.end()
	}
	if v.save != "" {
		content, err := json.MarshalIndent(plan, "", "  ")
		if err == nil {
			err = os.WriteFile(v.save, append(content, '\n'), 0o644)
		}
		if err != nil {
			return cli.Failed(fmt.Errorf("write the plan: %w", err), "name another file with --save")
		}
	}
	r := sim.Run(plan, c.OutOrStdout())
	fmt.Fprintf(c.ErrOrStderr(), "%d servers and %d observers, %d clients, %d faults: %d lines, trace %016x, %.1f s simulated\n",
		plan.Participants, plan.Observers, plan.Clients, len(plan.Faults), r.Lines, r.Trace, float64(r.AtMs)/1000)
	if r.Err == nil {
		return nil
	}
	return cli.Failed(fmt.Errorf("seed %d at %d ms: %w", plan.Seed, r.AtMs, r.Err), "docs/simulator.md says how to read the trace; --shrink makes it shorter")
}

// many runs many seeds and counts.
func (v *simFlags) many(c *cobra.Command, p *cli.Printer, mutant sim.Mutant) error {
	result := simulated{Seeds: v.seeds, From: v.from, Failed: []failedSeed{}}
	bar := newBar(c.ErrOrStderr(), v.seeds)
	start := time.Now()
	var mu sync.Mutex
	done := 0
	v.each(func(seed uint64) bool {
		plan := sim.Draw(seed)
		plan.Mutant = mutant
		r := sim.Run(plan, nil)
		mu.Lock()
		defer mu.Unlock()
		result.SimulatedS += float64(r.AtMs) / 1000
		result.tally = sim.Sum(result.tally, r.Tally)
		if r.Err != nil {
			result.Failed = append(result.Failed, failedSeed{seed, r.AtMs, r.Err.Error()})
		}
		done++
		bar.step(done, fmt.Sprintf("%d failed, %.0f simulated hours", len(result.Failed), result.SimulatedS/3600))
		return true
	})
	bar.end()
	result.WallS = time.Since(start).Seconds()
	var known bool
	if result.CPUS, known = cpuSeconds(); !known {
		result.CPUS = result.WallS * float64(v.jobs)
	}
	result.PerSecond = result.SimulatedS / max(result.CPUS, 1e-9)
	result.Transactions = result.tally.Committed
	if err := p.Answer(result, func(w io.Writer) error { return simTable(w, &result) }); err != nil {
		return err
	}
	if n := len(result.Failed); n > 0 {
		return cli.Failed(fmt.Errorf("%d of %d seeds broke a promise", n, v.seeds),
			fmt.Sprintf("conclave sim --seed %d --shrink prints a small trace of one", result.Failed[0].Seed))
	}
	return nil
}

// each gives the seeds to the jobs, in order, until one of them says no.
func (v *simFlags) each(run func(seed uint64) bool) {
	var group sync.WaitGroup
	var mu sync.Mutex
	next, stopped := uint64(0), false
	for range v.jobs {
		group.Go(func() {
			for {
				mu.Lock()
				seed := v.from + next
				over := stopped || next >= uint64(v.seeds)
				next++
				mu.Unlock()
				if over {
					return
				}
				if !run(seed) {
					mu.Lock()
					stopped = true
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
}

func simTable(w io.Writer, r *simulated) error {
	t := r.tally
	rows := [][]string{
		{"seeds", fmt.Sprintf("%d, from %d", r.Seeds, r.From)},
		{"failed", fmt.Sprint(len(r.Failed))},
		{"simulated", fmt.Sprintf("%.0f s in %.1f s; %.0f s per second and core", r.SimulatedS, r.WallS, r.PerSecond)},
		{"events, steps", fmt.Sprintf("%d, %d", t.Events, t.Steps)},
		{"transactions", fmt.Sprint(t.Committed)},
		{"writes", fmt.Sprintf("%d acknowledged, %d refused, %d of unknown fate", t.Acked, t.Refused, t.Unknown)},
		{"reads, events of watches", fmt.Sprintf("%d, %d", t.Reads, t.Watches)},
		{"sessions", fmt.Sprintf("attached %d times, %d expired", t.Sessions, t.Expired)},
		{"elections", fmt.Sprintf("%d votes decided, %d leaders", t.Elections, t.Leaders)},
		{"faults", fmt.Sprintf("%d, and %d ends of processes, %d disks lost", t.Faults, t.Crashes, t.Lost)},
		{"learners brought up", fmt.Sprintf("DIFF %d, TRUNC %d, SNAP %d, %d reloads", t.Diff, t.Trunc, t.Snap, t.Reloads)},
		{"snapshots", fmt.Sprint(t.Snapshots)},
	}
	if err := cli.Table(w, []string{"WHAT", "HOW MUCH"}, rows); err != nil {
		return err
	}
	for _, f := range r.Failed {
		if _, err := fmt.Fprintf(w, "seed %d at %d ms: %s\n", f.Seed, f.AtMs, f.Why); err != nil {
			return err
		}
	}
	return nil
}

// hunt puts every mutant back in turn, or only one.
func (v *simFlags) hunt(c *cobra.Command, p *cli.Printer, only sim.Mutant) error {
	all := sim.Mutants()
	if only != sim.None {
		all = []sim.Mutant{only}
	}
	bar := newBar(c.ErrOrStderr(), len(all))
	var results []foundMutant
	missed := 0
	for i, m := range all {
		bar.step(i, m.String())
		f := v.find(m)
		if !f.Found {
			missed++
		}
		results = append(results, f)
	}
	bar.end()
	if err := p.Answer(results, func(w io.Writer) error { return mutantTable(w, results) }); err != nil {
		return err
	}
	if missed > 0 {
		return cli.Failed(fmt.Errorf("%d of %d known bugs were not found with %d seeds each", missed, len(all), v.seeds), "more --seeds may find them")
	}
	return nil
}

// find runs seeds with a mutant until one fails. Time is that of one core.
func (v *simFlags) find(m sim.Mutant) foundMutant {
	f := foundMutant{Mutant: m.String(), Origin: m.Origin(), What: m.What()}
	start, wall := cpuSince(0), time.Now()
	for seed := v.from; f.Seeds < v.seeds && !f.Found; seed++ {
		plan := sim.Draw(seed)
		plan.Mutant = m
		f.Seeds++
		if r := sim.Run(plan, nil); r.Err != nil {
			f.Found = true
			f.By, _, _ = strings.Cut(r.Err.Error(), "\n")
		}
	}
	if f.TimeS = cpuSince(start); f.TimeS <= 0 {
		f.TimeS = time.Since(wall).Seconds()
	}
	return f
}

// cpuSince is the processor time used since a moment of it, 0 where it is not known.
func cpuSince(start float64) float64 {
	now, known := cpuSeconds()
	if !known {
		return 0
	}
	return now - start
}

func mutantTable(w io.Writer, results []foundMutant) error {
	var rows [][]string
	for _, f := range results {
		by := f.By
		if !f.Found {
			by = "NOT FOUND"
		}
		if len(by) > 90 {
			by = by[:90] + "..."
		}
		rows = append(rows, []string{f.Mutant, f.Origin, fmt.Sprint(f.Seeds), fmt.Sprintf("%.1f", f.TimeS), by})
	}
	return cli.Table(w, []string{"MUTANT", "MET IN", "SEEDS", "SECONDS", "FOUND BY"}, rows)
}

// bar is a line of progress on a terminal; elsewhere it shows nothing.
type bar struct {
	w     io.Writer
	total int
	last  time.Time
	wrote bool
}

func newBar(w io.Writer, total int) *bar {
	if file, ok := w.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return &bar{w: w, total: total}
		}
	}
	return &bar{total: total}
}

const barWidth = 30

func (b *bar) step(done int, text string) {
	filled := barWidth * done / max(b.total, 1)
	b.show(fmt.Sprintf("[%s%s] %d/%d %s", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), done, b.total, text))
}

// show replaces the line, ten times a second at most.
func (b *bar) show(line string) {
	if b.w == nil || time.Since(b.last) < 100*time.Millisecond {
		return
	}
	b.last, b.wrote = time.Now(), true
	fmt.Fprintf(b.w, "\r\x1b[K%s", line)
}

func (b *bar) end() {
	if b.wrote {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}
