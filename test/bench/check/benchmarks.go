//go:build linux

package check

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A benchmark is a set of benchmarks of one package, with a number of iterations that
// yields the same counts each time.
type benchmark struct {
	folder, names, iterations string
}

// hot are the benchmarks of the processing of requests, and the ones for memory. A link
// first fills buffers, whose size depends on timing: with more messages, the buffers matter
// less.
var hot = []benchmark{
	{"internal/wire", ".", "1000x"},
	{"internal/txn", ".", "1000x"},
	{"internal/txnlog", "Append100$", "10000x"},
	{"internal/prep", "Decide", "500x"},
	{"internal/tree", "SetData|Create|Find", "50000x"},
	{"internal/tree", "Znode", "2x"},
	{"internal/watch", "Add", "2x"},
	{"internal/session", "Open", "2x"},
	{"internal/zab", "Leader", "500x"},
	{"internal/peerwire", ".", "1000x"},
	{"internal/peernet", "Link", "500000x"},
	{"internal/replica", "Writes", "500x"},
	{"internal/server", "Reads|Writes/off", "25600x"},
	{"internal/server", "Connection", "2x"},
	{"client", "Pipelined", "20000x"},
}

// runs is how often each benchmark is run.
const runs = "3"

// folders returns the directories of hot, each once.
func folders() []string {
	var all []string
	for _, b := range hot {
		if !slices.Contains(all, b.folder) {
			all = append(all, b.folder)
		}
	}
	return all
}

// benchmarks compares the counts of the benchmarks.
func (c *comparison) benchmarks(ctx context.Context) error {
	for _, v := range c.versions() {
		for _, folder := range folders() {
			if err := c.try(ctx, v, func() error { return v.buildTest(ctx, folder) }); err != nil {
				return err
			}
		}
	}
	for _, folder := range folders() {
		if !c.all && alike(c.head.test(folder), c.base.test(folder)) {
			c.unchanged = append(c.unchanged, folder)
			continue
		}
		c.progress("benchmarks of " + folder)
		for _, v := range c.versions() {
			for _, b := range hot {
				if b.folder != folder {
					continue
				}
				if err := c.try(ctx, v, func() error { return v.run(ctx, b) }); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// buildTest builds the test program of a package, if the version has one.
func (v *version) buildTest(ctx context.Context, folder string) error {
	if tests, err := filepath.Glob(filepath.Join(v.dir, folder, "*_test.go")); err != nil || len(tests) == 0 {
		return err
	}
	// With -trimpath, packages that have not changed are compiled to identical results,
	// which both versions share.
	_, err := output(ctx, v.dir, "go", "test", "-trimpath", "-c", "-o", v.test(folder), "./"+folder)
	return err
}

// test returns the path of a package's test program.
func (v *version) test(folder string) string {
	return filepath.Join(v.built, strings.ReplaceAll(folder, "/", "-")+".test")
}

// alike reports whether two programs are identical.
func alike(a, b string) bool {
	one, err1 := os.ReadFile(a)
	other, err2 := os.ReadFile(b)
	return err1 == nil && err2 == nil && bytes.Equal(one, other)
}

// run runs benchmarks of a package and records their counts.
func (v *version) run(ctx context.Context, b benchmark) error {
	program := v.test(b.folder)
	if _, err := os.Stat(program); err != nil {
		return nil // this version does not have it
	}
	text, err := output(ctx, filepath.Join(v.dir, b.folder), program, "-test.run", "^$", "-test.bench", b.names,
		"-test.benchmem", "-test.benchtime", b.iterations, "-test.count", runs, "-test.timeout", "5m")
	if err != nil {
		return err
	}
	for name, value := range parse(text) {
		v.counts.note(b.folder+" "+name, value)
	}
	return nil
}

// parse returns the counts in a benchmark's output by name; if there are several, the
// least.
//
//	BenchmarkSetData/100-90-2   50000   512.0 ns/op   0 B/op   0 allocs/op
func parse(text string) counts {
	c := counts{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if at := strings.LastIndexByte(name, '-'); at >= 0 {
			name = name[:at] // the number of processors
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if unit := fields[i+1]; err == nil && (unit == "allocs/op" || strings.HasPrefix(unit, "B/")) {
				c.note(fmt.Sprintf("%s %s", name, unit), value)
			}
		}
	}
	return c
}
