//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/test/stores"
)

// testsWithin limits the time for the tests of one backend.
const testsWithin = "40m"

// errNotAll says that something failed; the details were printed.
var errNotAll = errors.New("not everything was proved")

// runner runs the proofs.
type runner struct {
	out     io.Writer
	chosen  []proof
	without []string // names of backends and stores
	lost    bool     // only the experiment with pauses
	suite   bool     // only the suite
	docs    bool
	// parallel is how many proofs run at a time.
	parallel int
	lease    time.Duration // the shortest lease; 0 leaves it to the suites
	from     string        // logs of an earlier run whose reports are used

	logs string
}

// run runs all selected proofs, and writes the page.
func (r *runner) run(ctx context.Context) error {
	var err error
	if r.logs, err = logDir(); err != nil {
		return err
	}
	if r.lost || r.suite { // the others have no suite
		r.chosen = slices.DeleteFunc(r.chosen, func(p proof) bool { return p.lost == 0 })
	}
	if r.parallel > 1 { // the longest one first
		slices.SortStableFunc(r.chosen, func(a, b proof) int { return b.lost - a.lost })
	}
	found, proved, failed := r.proveAll(ctx)
	all, err := load()
	if err != nil {
		return err
	}
	all.add(found)
	if r.from != "" {
		earlier, err := read(filepath.Join(r.from, "*"))
		if err != nil {
			return err
		}
		all.add(earlier)
	}
	if r.lost {
		others, bad := r.foreign(ctx)
		for _, o := range others {
			all.addOther(o)
		}
		proved, failed = proved+len(others), failed+bad
	}
	if len(r.chosen) > 0 {
		fmt.Fprint(r.out, "\n", summary(found))
	}
	if r.docs {
		if err := all.save(); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.out, "%d passed, %d failed; logs in %s\n", proved, failed, r.logs)
	if failed > 0 {
		return errNotAll
	}
	return nil
}

// proveAll runs the proofs, some at a time.
func (r *runner) proveAll(ctx context.Context) (found []electiontest.Report, proved, failed int) {
	var mu sync.Mutex // guards found, proved, failed, and the output
	var all sync.WaitGroup
	places := make(chan struct{}, max(1, r.parallel))
	for _, p := range r.chosen {
		places <- struct{}{}
		all.Go(func() {
			var text strings.Builder
			reports, ok := r.prove(ctx, p, &text)
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprint(r.out, text.String())
			found = append(found, reports...)
			if ok {
				proved++
			} else {
				failed++
			}
			<-places
		})
	}
	all.Wait()
	slices.SortStableFunc(found, func(a, b electiontest.Report) int { return place(a) - place(b) })
	return found, proved, failed
}

// prove builds the stores of one backend and runs its tests; output goes to out.
func (r *runner) prove(ctx context.Context, p proof, out io.Writer) ([]electiontest.Report, bool) {
	began := time.Now()
	var leave []string
	for _, name := range p.needs() {
		if slices.Contains(r.without, name) {
			leave = append(leave, name)
			continue
		}
		if err := stores.Build(ctx, name); err != nil {
			fmt.Fprintf(out, "NOT PROVED  %s: %v\n            (-without %s leaves it out)\n", p.name, err, name)
			return nil, false
		}
	}
	built := time.Since(began)
	began = time.Now()
	reports, err := r.test(ctx, p, leave)
	result := "ok"
	if err != nil {
		result = "FAILED"
	}
	fmt.Fprintf(out, "%-11s %-10s %6.1f s, stores built in %.1f s\n", result, p.name, time.Since(began).Seconds(), built.Seconds())
	for _, report := range reports {
		fmt.Fprintf(out, "            %s\n", line(report))
	}
	if err != nil {
		fmt.Fprintf(out, "            %v\n%s", err, r.why(p))
	}
	return reports, err == nil
}

// test runs the tests of a proof and reads the reports that they leave.
func (r *runner) test(ctx context.Context, p proof, leave []string) ([]electiontest.Report, error) {
	reports := filepath.Join(r.logs, p.name)
	if err := os.MkdirAll(reports, 0o755); err != nil {
		return nil, err
	}
	args := []string{"test", "-tags", "conformance", "-count=1", "-v", "-timeout", testsWithin, "-run", r.pattern(p)}
	for dir := range strings.FieldsSeq(p.dir) {
		args = append(args, "./"+dir+"/...")
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Env = append(os.Environ(), electiontest.ReportsVariable+"="+reports,
		stores.WithoutVariable+"="+strings.Join(leave, ","))
	if r.lease > 0 {
		command.Env = append(command.Env, electiontest.LeaseVariable+"="+r.lease.String())
	}
	if r.lost {
		command.Env = append(command.Env, fmt.Sprintf("%s=%d", electiontest.LostUpdatesVariable, p.lost))
	}
	log, err := os.Create(r.logFile(p))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	failure := command.Run()
	if failure != nil {
		failure = fmt.Errorf("%w: %s", failure, log.Name())
	}
	found, err := read(reports)
	if err == nil && len(found) == 0 && p.lost > 0 {
		err = fmt.Errorf("no test of %s ran the suite: %s", p.dir, log.Name())
	}
	return found, errors.Join(failure, err)
}

// logFile returns the file for the output of a proof's tests.
func (r *runner) logFile(p proof) string { return filepath.Join(r.logs, p.name+".log") }

// why returns what the log says of tests that failed: the log may be on a machine that is gone when
// somebody reads the result.
func (r *runner) why(p proof) string {
	log, err := os.ReadFile(r.logFile(p))
	if err != nil {
		return err.Error() + "\n"
	}
	return failures(string(log))
}

// pattern returns the tests to run: all of a backend, only its suites, or only the
// experiment of each suite.
func (r *runner) pattern(p proof) string {
	pattern := p.pattern()
	if pattern == "." && (r.lost || r.suite) {
		pattern = "Suite"
	}
	if r.lost {
		pattern += "/NoFencedUpdate"
	}
	return pattern
}

// line sums up one report.
func line(r electiontest.Report) string {
	passed, failed, left := tally(r)
	text := fmt.Sprintf("%s: %d passed, %d failed, %d left out; %d leaderships, overlap %.0f ms, tokens back %d",
		r.Store, passed, failed, left, r.Leaderships, r.OverlapMaxMs, r.TokensBack)
	if r.LostUpdates != nil {
		text = fmt.Sprintf("%s: lost updates: %s", r.Store, counts(r.LostUpdates))
	}
	return text
}

// tally counts the tests of a report.
func tally(r electiontest.Report) (passed, failed, left int) {
	for _, test := range r.Tests {
		switch {
		case test.LeftOut != "":
			left++
		case test.Passed:
			passed++
		default:
			failed++
		}
	}
	return passed, failed, left
}
