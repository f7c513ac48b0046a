package electiontest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest/lostupdate"
)

// ReportsVariable names the environment variable with the directory for the reports, which must
// exist.
const ReportsVariable = "CONCLAVE_REPORTS"

// LeaseVariable names the environment variable with the shortest lease to use, such as "3s", for
// machines that are busier than the suites expect.
const LeaseVariable = "CONCLAVE_SUITE_LEASE"

// LostUpdatesVariable names the environment variable that requests the experiment with pauses,
// and says how many seconds it takes at least.
const LostUpdatesVariable = "CONCLAVE_LOST_UPDATES_SECONDS"

// Report is the result of a run of the suite, with what the backend promises.
type Report struct {
	// Suite is the name of the Go test that ran it.
	Suite string `json:"suite"`
	// Store is the name and version of the store.
	Store string `json:"store,omitempty"`
	// Date is the day of the run.
	Date string `json:"date"`
	// Traits are the backend's traits.
	Traits election.Traits `json:"traits"`
	// Nominator and Operator report whether the backend is one.
	Nominator bool `json:"nominator"`
	Operator  bool `json:"operator"`
	// LeaseMs is the lease that was tested with.
	LeaseMs int64 `json:"leaseMs"`
	// Tests are the tests in their order.
	Tests []TestResult `json:"tests"`
	// Leaderships is how many leaderships were judged; OverlapMaxMs is the longest time in which
	// two candidates considered themselves leaders at once; TokensBack is how many tokens were
	// not higher than the previous one.
	Leaderships  int     `json:"leaderships"`
	OverlapMaxMs float64 `json:"overlapMaxMs"`
	TokensBack   int     `json:"tokensBack"`
	// LostUpdates is the outcome of the experiment with pauses, nil if it was not run.
	LostUpdates *lostupdate.Result `json:"lostUpdates,omitempty"`
	// Figures are the figures by name; the name contains the unit.
	Figures map[string]Figure `json:"figures"`
}

// TestResult is the outcome of one test.
type TestResult struct {
	Name    string  `json:"name"`
	Passed  bool    `json:"passed"`
	Seconds float64 `json:"seconds"`
	// LeftOut says why the test was not run, empty if it was.
	LeftOut string `json:"leftOut,omitempty"`
}

// Figure sums up several measurements.
type Figure struct {
	Count  int     `json:"count"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// Names of figures.
const (
	FigureKill      = "from the kill of a holder to the next, ms"
	FigureResign    = "gap after resigning, ms"
	FigureStranded  = "until a waiter with dead connections leads, ms"
	FigureGuardian  = "from a cut to the last act under a frozen guardian, ms"
	FigureFrozenRun = "from the freeze of a run to the last act, ms"
	FigureFullPipes = "from a cut to the last act, pipes full, ms"
	FigureSlow      = "until all have led again after a disk of seconds, ms"
	FigureMute      = "until one leads after a candidate that is told nothing, ms"
	FigureTransfer  = "gap after a transfer, ms"
	FigureRelease   = "from a release to the next grant, ms"
	FigureRequest   = "from an operator's request to the next leader, ms"
	FigureWaiting   = "bytes per second to a waiting candidate"
	FigureWoken     = "per cent of the other waiters that a handover wakes"
)

// recorder collects a report. Its methods may be called by several goroutines.
type recorder struct {
	mu      sync.Mutex
	report  Report
	samples map[string][]float64
}

func newRecorder(s Suite, traits election.Traits, backend election.Backend) *recorder {
	_, nominator := backend.(election.Nominator)
	_, operator := backend.(election.Operator)
	return &recorder{samples: map[string][]float64{}, report: Report{
		Store: s.Store, Date: time.Now().UTC().Format(time.DateOnly), Traits: traits,
		Nominator: nominator, Operator: operator, LeaseMs: s.Lease.Milliseconds()}}
}

func (r *recorder) leaveOut(name, why string) {
	r.report.Tests = append(r.report.Tests, TestResult{Name: name, LeftOut: why})
}

func (r *recorder) ran(name string, passed bool, took time.Duration) {
	r.report.Tests = append(r.report.Tests, TestResult{Name: name, Passed: passed, Seconds: took.Seconds()})
}

// sample adds to a figure.
func (r *recorder) sample(name string, value float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples[name] = append(r.samples[name], value)
}

func (r *recorder) sampleMs(name string, value time.Duration) {
	r.sample(name, float64(value)/float64(time.Millisecond))
}

// judged adds the verdict on a history.
func (r *recorder) judged(v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Leaderships += v.leaderships
	r.report.OverlapMaxMs = max(r.report.OverlapMaxMs, float64(v.overlapMax)/float64(time.Millisecond))
	r.report.TokensBack += v.tokensBack
}

// write puts the report into the directory for reports, if there is one.
func (r *recorder) write(suite string) error {
	dir := os.Getenv(ReportsVariable)
	if dir == "" {
		return nil
	}
	r.report.Suite, r.report.Figures = suite, map[string]Figure{}
	for _, name := range slices.Sorted(maps.Keys(r.samples)) {
		values := slices.Sorted(slices.Values(r.samples[name]))
		r.report.Figures[name] = Figure{len(values), values[len(values)/2], values[len(values)-1]}
	}
	text, err := json.MarshalIndent(r.report, "", "\t")
	if err != nil {
		return fmt.Errorf("electiontest: report: %w", err)
	}
	name := strings.Map(plain, r.report.Traits.Name+"-"+suite) + ".json"
	return os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o644)
}

// plain keeps file names simple.
func plain(r rune) rune {
	if r == '/' || r == ' ' || r == os.PathSeparator {
		return '-'
	}
	return r
}
