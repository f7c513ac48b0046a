package command

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/sim"
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
	guided  bool
	covers  bool
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
	Coverage     covered      `json:"coverage"`
	tally        sim.Tally
	met          sim.Coverage
}

// covered is how much of the protocols' tables the runs have met.
type covered struct {
	RowsMet   int      `json:"rowsMet"`
	Rows      int      `json:"rows"`
	PairsMet  int      `json:"pairsMet"`
	NeverMet  []string `json:"neverMet"`  // rows without a reason
	Explained []string `json:"explained"` // rows that cannot be met, and why
}

type failedSeed struct {
	Seed uint64 `json:"seed"`
	AtMs int64  `json:"atMs"`
	Why  string `json:"why"`
	plan sim.Plan
}

// foundMutant is how a known bug was found.
type foundMutant struct {
	Mutant string  `json:"mutant"`
	Origin string  `json:"origin"`
	What   string  `json:"what"`
	Found  bool    `json:"found"`
	Seeds  int     `json:"seeds"` // number of seeds that were run
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
broken disks, lost disks and strange clocks. Everything in a run follows from its
seed. While it runs, it is checked against what ZooKeeper promises.

--seeds makes many runs and counts them; it lists which rows of the protocols'
tables they never met. --guided varies plans that met a new pair of rows, and so
gets further than chance does. --seed makes one run and prints its trace: ms, who,
what, whom, zxid, detail. --shrink first makes a failing run smaller; --save keeps
it in a file that --plan plays again. --mutants puts known bugs back one at a
time, and says after how many seeds each was found.

The exit code is 1 if a promise was broken, or a mutant was not found.`,
		Example: `  conclave sim --seeds 1000
  conclave sim --seed 53                   # the trace of one run
  conclave sim --seed 53 --shrink --save small.json
  conclave sim --plan small.json
  conclave sim --seeds 2000 --coverage
  conclave sim --seeds 2000 --guided --save failed.json
  conclave sim --mutants`,
		Args: takes(0),
		RunE: v.run,
	}
	v.add(c)
	f := c.Flags()
	f.IntVar(&v.seeds, "seeds", 200, "how many seeds to run")
	f.Uint64Var(&v.from, "from", 1, "the first seed")
	f.Uint64Var(&v.seed, "seed", 0, "run this seed and print its trace")
	f.IntVar(&v.jobs, "jobs", runtime.NumCPU(), "runs at the same time")
	f.BoolVar(&v.shrink, "shrink", false, "make the failing run of --seed or --plan as small as possible")
	f.StringVar(&v.plan, "plan", "", "run the plan in this file and print its trace")
	f.StringVar(&v.save, "save", "", "write the plan of --seed, or of the first run that fails, to this file")
	f.StringVar(&v.mutant, "mutant", "", "put this known bug back (see --mutants)")
	f.BoolVar(&v.guided, "guided", false, "also vary the plans that met something new")
	f.BoolVar(&v.covers, "coverage", false, "fail if a row of the protocols' tables was never met")
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
			return cli.Usage("conclave sim --mutants prints their names at the end", "%w", err)
		}
	}
	if v.seeds < 1 || v.jobs < 1 {
		return cli.Usage("conclave sim --help shows what each flag takes", "--seeds and --jobs must be at least 1")
	}
	debug.SetGCPercent(1600) // runs are short, and produce much garbage but little live memory
	switch {
	case v.plan != "" || c.Flags().Changed("seed"):
		return v.one(c, p, mutant)
	case v.mutants:
		return v.hunt(c, p, mutant)
	}
	return v.many(c, p, mutant)
}

// one runs a single plan and prints its trace: a line, or an object of JSON, for each note.
func (v *simFlags) one(c *cobra.Command, p *cli.Printer, mutant sim.Mutant) error {
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
		if err := v.keep(&plan); err != nil {
			return err
		}
	}
	out := bufio.NewWriter(c.OutOrStdout())
	r := sim.Run(plan, printing(out, p.JSON))
	if err := out.Flush(); r.Err == nil {
		r.Err = err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%d servers and %d observers, %d clients, %d faults: %d lines, trace %016x, %.1f s simulated\n",
		plan.Participants, plan.Observers, plan.Clients, len(plan.Faults), r.Lines, r.Trace, float64(r.AtMs)/1000)
	if r.Err == nil {
		return nil
	}
	return cli.Failed(fmt.Errorf("seed %d at %d ms: %w", plan.Seed, r.AtMs, r.Err), "docs/simulator.md says how to read the trace; --shrink makes it shorter")
}

// printing returns a function that prints each note.
func printing(w io.Writer, asJSON bool) func(*sim.Note) error {
	if asJSON {
		objects := json.NewEncoder(w)
		return func(n *sim.Note) error { return objects.Encode(n) }
	}
	return func(n *sim.Note) error {
		_, err := fmt.Fprintln(w, n)
		return err
	}
}

// many runs many seeds and prints the totals.
func (v *simFlags) many(c *cobra.Command, p *cli.Printer, mutant sim.Mutant) error {
	result := simulated{Seeds: v.seeds, From: v.from, Failed: []failedSeed{}}
	bar := newBar(c.ErrOrStderr(), v.seeds)
	start := time.Now()
	done := 0
	v.each(mutant, func(r *sim.Report) {
		result.SimulatedS += float64(r.AtMs) / 1000
		result.tally = sim.Sum(result.tally, r.Tally)
		result.met.Add(r.Met)
		if r.Err != nil {
			result.Failed = append(result.Failed, failedSeed{r.Plan.Seed, r.AtMs, r.Err.Error(), r.Plan})
		}
		done++
		bar.step(done, fmt.Sprintf("%d failed, %.0f simulated hours", len(result.Failed), result.SimulatedS/3600))
	})
	bar.end()
	result.WallS = time.Since(start).Seconds()
	var known bool
	if result.CPUS, known = cpuSeconds(); !known {
		result.CPUS = result.WallS * float64(v.jobs)
	}
	result.PerSecond = result.SimulatedS / max(result.CPUS, 1e-9)
	result.Transactions = result.tally.Committed
	result.Coverage.RowsMet, result.Coverage.Rows = result.met.Rows()
	result.Coverage.PairsMet = result.met.Pairs()
	result.Coverage.NeverMet, result.Coverage.Explained = result.met.Missing()
	if err := p.Answer(result, func(w io.Writer) error { return simTable(w, &result) }); err != nil {
		return err
	}
	n := len(result.Failed)
	switch {
	case n > 0 && v.save != "":
		if err := v.keep(&result.Failed[0].plan); err != nil {
			return err
		}
		return cli.Failed(fmt.Errorf("%d of %d runs broke a promise", n, v.seeds), "conclave sim --shrink --plan "+v.save+" prints a small trace of one")
	case n > 0 && v.guided:
		return cli.Failed(fmt.Errorf("%d of %d runs broke a promise", n, v.seeds), "keep the plan of the first one with --save")
	case n > 0:
		return cli.Failed(fmt.Errorf("%d of %d seeds broke a promise", n, v.seeds),
			fmt.Sprintf("conclave sim --seed %d --shrink prints a small trace of one", result.Failed[0].Seed))
	case v.covers && len(result.Coverage.NeverMet) > 0:
		return cli.Failed(fmt.Errorf("%d rows of the tables were never met", len(result.Coverage.NeverMet)), "more --seeds may meet them")
	}
	return nil
}

// keep writes a plan to the file of --save.
func (v *simFlags) keep(plan *sim.Plan) error {
	content, err := json.MarshalIndent(plan, "", "  ")
	if err == nil {
		err = os.WriteFile(v.save, append(content, '\n'), 0o644)
	}
	if err != nil {
		return cli.Failed(fmt.Errorf("write the plan: %w", err), "name another file with --save")
	}
	return nil
}

// generation is how many plans are made at a time, whatever the number of jobs: what they
// have met, in their order, determines the next ones.
const generation = 64

// each runs as many plans as --seeds says, and calls told with the reports, one at a time
// and in order.
func (v *simFlags) each(mutant sim.Mutant, told func(*sim.Report)) {
	guide := sim.NewGuide(v.from)
	for first := 0; first < v.seeds; first += generation {
		count := min(generation, v.seeds-first)
		var plans []sim.Plan
		if v.guided {
			plans = guide.Next(count)
		} else {
			for i := range count {
				plans = append(plans, sim.Draw(v.from+uint64(first+i)))
			}
		}
		for _, r := range v.side(mutant, plans) {
			told(r)
			if v.guided {
				guide.Learn(r)
			}
		}
	}
}

// side runs plans in parallel.
func (v *simFlags) side(mutant sim.Mutant, plans []sim.Plan) []*sim.Report {
	reports := make([]*sim.Report, len(plans))
	var group sync.WaitGroup
	var next atomic.Int64
	for range v.jobs {
		group.Go(func() {
			for {
				at := int(next.Add(1)) - 1
				if at >= len(plans) {
					return
				}
				plan := plans[at]
				plan.Mutant = mutant
				r := sim.Run(plan, nil)
				reports[at] = &r
			}
		})
	}
	group.Wait()
	return reports
}

func simTable(w io.Writer, r *simulated) error {
	t := r.tally
	rows := [][]string{
		{"seeds", fmt.Sprintf("%d, from %d", r.Seeds, r.From)},
		{"failed", fmt.Sprint(len(r.Failed))},
		{"simulated", fmt.Sprintf("%.0f s in %.1f s; %.0f s per second and core", r.SimulatedS, r.WallS, r.PerSecond)},
		{"events, steps", fmt.Sprintf("%d, %d, %d of them behind", t.Events, t.Steps, t.Behind)},
		{"transactions", fmt.Sprint(t.Committed)},
		{"writes", fmt.Sprintf("%d acknowledged, %d refused, %d of unknown fate", t.Acked, t.Refused, t.Unknown)},
		{"reads, events of watches", fmt.Sprintf("%d, %d", t.Reads, t.Watches)},
		{"sessions", fmt.Sprintf("attached %d times, %d expired", t.Sessions, t.Expired)},
		{"of one server", fmt.Sprintf("%d local sessions, %d upgraded, %d connections to partitioned servers", t.Locals, t.Upgraded, t.Partitioned)},
		{"elections", fmt.Sprintf("%d votes decided, %d leaders", t.Elections, t.Leaders)},
		{"faults", fmt.Sprintf("%d, and %d ends of processes, %d disks lost", t.Faults, t.Crashes, t.Lost)},
		{"disks", fmt.Sprintf("%d bad writes, %d logs without their end, %d reads failed, %d runs ended because a majority was none", t.BadWrites, t.Short, t.ReadErrors, t.Beyond)},
		{"memory", fmt.Sprintf("%d trees damaged", t.Spoilt)},
		{"learners synchronized", fmt.Sprintf("DIFF %d, TRUNC %d, SNAP %d, %d reloads", t.Diff, t.Trunc, t.Snap, t.Reloads)},
		{"snapshots", fmt.Sprint(t.Snapshots)},
		{"changes of the ensemble", fmt.Sprintf("%d asked for, %d came in force", t.Asked, t.Reconfigs)},
		{"slow peers", fmt.Sprintf("%d links cut", t.Slow)},
		{"coverage", fmt.Sprintf("%d of %d rows of the tables, %d pairs of rows", r.Coverage.RowsMet, r.Coverage.Rows, r.Coverage.PairsMet)},
	}
	if err := cli.Table(w, []string{"WHAT", "HOW MUCH"}, rows); err != nil {
		return err
	}
	for _, row := range r.Coverage.NeverMet {
		if _, err := fmt.Fprintf(w, "never met: %s\n", row); err != nil {
			return err
		}
	}
	for _, f := range r.Failed {
		if _, err := fmt.Fprintf(w, "seed %d at %d ms: %s\n", f.Seed, f.AtMs, f.Why); err != nil {
			return err
		}
	}
	return nil
}

// hunt puts each mutant back, one after the other, or only the given one.
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

// find runs seeds with a mutant until one fails. The time is that of one core.
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

// cpuSince returns the processor time used since start; 0 if unknown.
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
