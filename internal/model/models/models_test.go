package models

import (
	"flag"
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

func TestSmallScopesHold(t *testing.T) {
	for _, m := range All() {
		if m.Name == "fle-links" {
			continue // its small scope is that of fle
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			r := model.Explore(m.Small(), model.Limits{})
			if r.Violation != nil {
				t.Fatalf("%s\n%s", r.Violation.Wrong, r.Violation.Trace)
			}
			if r.Unfinished != "" || r.States < 1000 {
				t.Fatalf("%d states, %s", r.States, r.Unfinished)
			}
			t.Logf("%d states, depth %d, %v", r.States, r.Depth, r.Took)
		})
	}
}

var slowToo = flag.Bool("slow", false, "look for the mutants, too, that take a minute")

// slow are the mutants that take more states to find than a test may visit.
var slow = map[string]bool{"leader-deaf": true, "zab-epoch-forgotten": true, "raft-drift-ignored": true, "raft-lease-from-answer": true,
	"raft-promise-lost": true, "raft-newcomer-not-silent": true}

// Each known bug is found by its effect on clients, not by the rule that it breaks.
func TestMutantsAreFound(t *testing.T) {
	for _, m := range Mutants() {
		limits := model.Limits{States: statesMax}
		if slow[m.Name] {
			if !*slowToo {
				continue
			}
			limits = model.Limits{}
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Attr("what", m.What)
			if !*slowToo {
				t.Parallel()
			}
			r := model.Explore(m.New(), limits)
			if r.Violation == nil {
				t.Fatalf("not found in %d states", r.States)
			}
			t.Logf("%s, after %d states, depth %d, in %v", r.Violation.Wrong, r.States, r.Depth, r.Took)
		})
	}
}

// statesMax is how many states a test visits for one mutant.
const statesMax = 60_000

func TestNamesAreOfOneEach(t *testing.T) {
	names := map[string]bool{}
	for _, m := range All() {
		names[m.Name] = true
	}
	if len(names) != len(All()) {
		t.Errorf("%d names of %d models", len(names), len(All()))
	}
	for _, m := range Mutants() {
		if !names[m.Model] || names[m.Name] || m.Origin == "" || m.What == "" {
			t.Errorf("mutant %+v", m)
		}
		names[m.Name] = true
	}
}
