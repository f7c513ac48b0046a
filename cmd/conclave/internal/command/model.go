package command

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/model"
	"github.com/conclave-project/conclave/internal/model/models"
	"github.com/spf13/cobra"
)

// modelFlags is the flags of `conclave model`.
type modelFlags struct {
	outputFlag
	model   string
	scope   string
	mutant  string
	mutants bool
	workers int
	limit   time.Duration
	memory  int
	save    string
}

// explored is the result of one search.
type explored struct {
	Model      string  `json:"model"`
	Mutant     string  `json:"mutant,omitempty"`
	Origin     string  `json:"origin,omitempty"`
	What       string  `json:"what"`
	Scope      string  `json:"scope"`
	States     int     `json:"states"`
	Moves      int     `json:"moves"`
	Depth      int     `json:"depth"`
	TimeS      float64 `json:"seconds"`
	Unfinished string  `json:"unfinished,omitempty"`
	Wrong      string  `json:"wrong,omitempty"`
	violation  *model.Violation
}

func newModel() *cobra.Command {
	v := &modelFlags{}
	c := &cobra.Command{
		Use:   "model",
		Short: "Explore every order of events in small ensembles",
		Long: `Explores all states that small systems of the production machines can reach:
elections, Zab with its disk, Raft, candidates on one record; with crashes at
every point, restarts, and lost and repeated messages. In each state, it checks
what must hold, and that the system reaches a good state when nothing more goes
wrong. A violation is printed with a shortest trace.

--scope small takes a minute in all and is part of the tests; full takes an hour.
--mutants puts known bugs back one at a time, and says how each was found.
--save writes the trace as a story for the machine's testdata, if it can be
written as one.

The exit code is 1 if something was violated, a search did not finish, or a
mutant was not found.`,
		Example: `  conclave model                             # all, in their small scopes
  conclave model --model fle --scope full
  conclave model --mutants
  conclave model --mutant joins-silently --save stall.txt`,
		Args: takes(0),
		RunE: v.run,
	}
	v.add(c)
	f := c.Flags()
	f.StringVar(&v.model, "model", "", "explore this model (default all)")
	f.StringVar(&v.scope, "scope", "small", "small or full")
	f.StringVar(&v.mutant, "mutant", "", "put this known bug back")
	f.BoolVar(&v.mutants, "mutants", false, "put every known bug back in turn (those of --model, if given)")
	f.IntVar(&v.workers, "workers", 0, "searches at the same time (default one for each core)")
	f.DurationVar(&v.limit, "time", 0, "give up a search after this time (default never)")
	f.IntVar(&v.memory, "memory", 6144, "give up a search that uses this many MiB")
	f.StringVar(&v.save, "save", "", "write the first violation to this file")
	return c
}

func (v *modelFlags) run(c *cobra.Command, _ []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	if v.scope != "small" && v.scope != "full" {
		return cli.Usage("write --scope small or --scope full", "unknown scope %q", v.scope)
	}
	hunts := v.mutants || v.mutant != ""
	searches := v.searches()
	if hunts {
		searches = v.hunts()
	}
	if len(searches) == 0 {
		return cli.Usage("choose from "+names(hunts), "no such model or mutant")
	}
	debug.SetGCPercent(200)
	bar := newBar(c.ErrOrStderr(), 0)
	var results []explored
	for _, s := range searches {
		results = append(results, v.explore(s, bar))
		bar.end()
		last := &results[len(results)-1]
		if err := v.keep(s.m, last); err != nil {
			return err
		}
		if last.violation != nil && !v.mutants {
			fmt.Fprint(c.ErrOrStderr(), last.violation.Trace)
		}
	}
	if err := p.Answer(results, func(w io.Writer) error { return modelTable(w, results, hunts) }); err != nil {
		return err
	}
	return verdict(results, hunts)
}

// planned is a search to be made.
type planned struct {
	explored
	m func() *model.Model
}

func (v *modelFlags) searches() []planned {
	var all []planned
	for _, m := range models.All() {
		if v.model != "" && v.model != m.Name {
			continue
		}
		build := m.Small
		if v.scope == "full" {
			build = m.Full
		}
		all = append(all, planned{explored{Model: m.Name, What: m.What}, build})
	}
	return all
}

func (v *modelFlags) hunts() []planned {
	var all []planned
	for _, m := range models.Mutants() {
		if v.model == "" || v.model == m.Model {
			if v.mutant == "" || v.mutant == m.Name {
				all = append(all, planned{explored{Model: m.Model, Mutant: m.Name, Origin: m.Origin, What: m.What}, m.New})
			}
		}
	}
	return all
}

// names lists the models or mutants, for a hint.
func names(mutants bool) string {
	var all []string
	if mutants {
		for _, m := range models.Mutants() {
			all = append(all, m.Name)
		}
		return strings.Join(all, ", ")
	}
	for _, m := range models.All() {
		all = append(all, m.Name)
	}
	return strings.Join(all, ", ")
}

func (v *modelFlags) explore(s planned, bar *bar) explored {
	m := s.m()
	limits := model.Limits{Time: v.limit, Workers: v.workers, Bytes: uint64(v.memory) << 20}
	limits.Progress = func(r model.Result) {
		bar.show(fmt.Sprintf("%s %s: depth %d, %d states", s.Model, s.Mutant, r.Depth, r.States))
	}
	r := model.Explore(m, limits)
	e := s.explored
	e.Scope, e.States, e.Moves, e.Depth, e.TimeS = m.Scope, r.States, r.Moves, r.Depth, r.Took.Seconds()
	e.Unfinished, e.violation = r.Unfinished, r.Violation
	if r.Violation != nil {
		e.Wrong = r.Violation.Wrong
	}
	debug.FreeOSMemory()
	return e
}

// keep writes the first violation to a file.
func (v *modelFlags) keep(build func() *model.Model, e *explored) error {
	if v.save == "" || e.violation == nil {
		return nil
	}
	err := os.WriteFile(v.save, []byte(model.Story(build(), e.violation)), 0o644)
	v.save = ""
	if err != nil {
		return cli.Failed(fmt.Errorf("write the story: %w", err), "name another file with --save")
	}
	return nil
}

func modelTable(w io.Writer, results []explored, mutants bool) error {
	rows := [][]string{{"MODEL", "SCOPE", "STATES", "DEPTH", "SECONDS", "RESULT"}}
	if mutants {
		rows[0] = []string{"MUTANT", "MET IN", "MODEL", "STATES", "DEPTH", "SECONDS", "FOUND BY"}
	}
	for _, e := range results {
		count := []string{fmt.Sprint(e.States), fmt.Sprint(e.Depth), fmt.Sprintf("%.1f", e.TimeS)}
		switch result := e.result(); {
		case mutants:
			rows = append(rows, append(append([]string{e.Mutant, e.Origin, e.Model}, count...), result))
		default:
			rows = append(rows, append(append([]string{e.Model, e.Scope}, count...), result))
		}
	}
	return cli.Table(w, rows[0], rows[1:])
}

func (e *explored) result() string {
	switch {
	case e.Wrong != "":
		first, _, _ := strings.Cut(e.Wrong, "\n")
		return first
	case e.Unfinished != "":
		return "NOT FINISHED: " + e.Unfinished
	}
	return "holds"
}

// verdict is the error of the whole, if any.
func verdict(results []explored, mutants bool) error {
	failed, unfinished := 0, 0
	for _, e := range results {
		if (e.Wrong != "") != mutants {
			failed++
		} else if e.Unfinished != "" {
			unfinished++
		}
	}
	switch {
	case failed > 0 && mutants:
		return cli.Failed(fmt.Errorf("%d of %d known bugs were not found", failed, len(results)), "docs/model.md says in which scope each was found")
	case failed > 0:
		return cli.Failed(fmt.Errorf("%d of %d models violate what must hold", failed, len(results)), "docs/model.md says how to read the trace; --save keeps it")
	case unfinished > 0:
		return cli.Failed(fmt.Errorf("%d of %d searches did not finish", unfinished, len(results)), "raise the limits with --memory and --time")
	}
	return nil
}
