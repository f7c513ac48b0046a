//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// detailLines is how many lines of a failure are shown without -v.
const detailLines = 12

// report prints results as they arrive and counts them.
type report struct {
	out     io.Writer
	verbose bool

	passed, failed int
	broken         bool // a suite could not be run
}

// suite prints the result of one suite: one line, and some lines for each failure.
func (r *report) suite(name string, results []result, err error, took time.Duration) {
	if err != nil {
		fmt.Fprintf(r.out, "%-12s could not be run: %v\n", name, err)
		r.broken = true
		r.failed++
		return
	}
	passed := 0
	for _, one := range results {
		if one.passed {
			passed++
			if r.verbose {
				fmt.Fprintf(r.out, "  ok    %s %s\n", name, one.name)
			}
			continue
		}
		fmt.Fprintf(r.out, "  FAIL  %s %s\n%s", name, one.name, r.indent(one.detail))
	}
	r.passed += passed
	r.failed += len(results) - passed
	fmt.Fprintf(r.out, "%-12s %3d passed, %d failed (%.0f s)\n", name, passed, len(results)-passed, took.Seconds())
}

func (r *report) indent(detail string) string {
	lines := strings.Split(strings.TrimSpace(detail), "\n")
	if len(lines) > detailLines && !r.verbose {
		lines = append(lines[:detailLines], "... (-v shows all)")
	}
	return "        " + strings.Join(lines, "\n        ") + "\n"
}

// finish prints the last line and returns the exit code.
func (r *report) finish() int {
	fmt.Fprintf(r.out, "%d passed, %d failed\n", r.passed, r.failed)
	switch {
	case r.broken:
		return 2
	case r.failed > 0:
		return 1
	}
	return 0
}
