//go:build linux

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/electiontest/lostupdate"
	"github.com/conclave-project/conclave/test/stores"
)

func TestPageIsThatOfTheReports(t *testing.T) {
	t.Chdir("../..")
	b, err := load()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != b.page() {
		t.Errorf("%s is not that of %s: go run ./test/conformance -page", pageFile, reportsFile)
	}
}

func TestEveryBackendAndEveryStoreHasAProof(t *testing.T) {
	dirs, err := os.ReadDir("../../election/backend")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if dir.Name() != "internal" && !slices.ContainsFunc(proofs, func(p proof) bool { return p.name == dir.Name() }) {
			t.Errorf("the backend %s has no proof", dir.Name())
		}
	}
	for _, name := range stores.Names() {
		if !slices.ContainsFunc(proofs, func(p proof) bool { return slices.Contains(p.needs(), name) }) {
			t.Errorf("the store %s serves no proof", name)
		}
	}
}

func TestChoiceOfProofs(t *testing.T) {
	if _, err := choose("oracle", "", false); err == nil {
		t.Error("an unknown backend is taken")
	}
	got, err := choose("etcd,redis", "redis", false)
	if err != nil || len(got) != 1 || got[0].name != "etcd" {
		t.Errorf("%v, %v", got, err)
	}
	for _, p := range must(choose("", "", true)) {
		if p.slow() {
			t.Errorf("%s is quick", p.name)
		}
	}
}

func must(chosen []proof, err error) []proof {
	if err != nil {
		panic(err)
	}
	return chosen
}

// report returns a report with the given number of tests, all passed.
func report(name, date string, tests int) electiontest.Report {
	r := electiontest.Report{Suite: "TestSuite", Store: "store 1", Date: date, Traits: election.Traits{Name: name}}
	for range tests {
		r.Tests = append(r.Tests, electiontest.TestResult{Name: "T", Passed: true})
	}
	return r
}

func TestNewReportsReplaceOldOnesAndKeepTheExperiment(t *testing.T) {
	var b book
	b.add([]electiontest.Report{report("etcd", "2026-01-01", 5), report("zookeeper", "2026-01-01", 5)})
	pauses := report("etcd", "2026-01-02", 1)
	pauses.LostUpdates = &lostupdate.Result{Registers: map[string]lostupdate.Count{
		lostupdate.Naive: {Updates: 1000, Lost: 7}, lostupdate.Fenced: {Updates: 900, Refused: 3}}}
	b.add([]electiontest.Report{pauses})
	if r := b.Reports[1]; r.Date != "2026-01-01" || len(r.Tests) != 5 || r.LostUpdates == nil {
		t.Errorf("after the experiment: %+v", r)
	}
	b.add([]electiontest.Report{report("etcd", "2026-01-03", 6)})
	if r := b.Reports[1]; r.Date != "2026-01-03" || len(r.Tests) != 6 || r.LostUpdates == nil {
		t.Errorf("after the suite: %+v", r)
	}
	b.addOther(other{"their lock", lostupdate.Result{}})
	b.addOther(other{"their lock", *pauses.LostUpdates})
	page := b.page()
	for _, want := range []string{"7 of 1000", "0 of 900", "no token", "their lock", "over all backends of Conclave: 0 of 900"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Index(page, "| zookeeper |") > strings.Index(page, "| etcd |") || len(b.Others) != 1 {
		t.Error("the page is out of order")
	}
}

func TestPageSaysWhatWasSeenUnderEachFault(t *testing.T) {
	r := report("etcd", "2026-01-01", 1)
	kill, guardian := electiontest.Strikes[0], electiontest.Strikes[7]
	r.Figures = map[string]electiontest.Figure{kill.Figure: {Count: 1, Median: 1234}}
	r.Tests = []electiontest.TestResult{{Name: kill.Test, Passed: true}, {Name: electiontest.Strikes[1].Test, Passed: true},
		{Name: electiontest.Strikes[2].Test}, {Name: guardian.Test, LeftOut: "why"}}
	var b book
	b.add([]electiontest.Report{r})
	page := b.page()
	for i, want := range []string{"1234", "held", "FAILED", "not struck yet"} {
		if row := "| " + electiontest.Strikes[i].Name + " | " + want + " |"; !strings.Contains(page, row) {
			t.Errorf("the page has no row %q", row)
		}
	}
	if row := "| " + guardian.Name + " | - |"; !strings.Contains(page, row) {
		t.Errorf("the page has no row %q", row)
	}
}

func TestFailedTestsAreCounted(t *testing.T) {
	r := report("etcd", "", 2)
	r.Tests = append(r.Tests, electiontest.TestResult{Name: "F"}, electiontest.TestResult{Name: "L", LeftOut: "why"})
	if passed, failed, left := tally(r); passed != 2 || failed != 1 || left != 1 {
		t.Errorf("%d passed, %d failed, %d left out", passed, failed, left)
	}
}
