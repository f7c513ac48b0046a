//go:build linux

package check

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// Options select what to compare.
type Options struct {
	Root     string // of the tree
	Base     string // a commit; empty means the last one, or the one before it if nothing has changed since
	All      bool   // also run identical programs, which shows how exact the counts are
	NoServer bool   // only the benchmarks
	Progress func(what string)
}

// counts are by name; of several values the least is kept.
type counts map[string]float64

func (c counts) note(name string, value float64) {
	if old, ok := c[name]; !ok || value < old {
		c[name] = value
	}
}

// A version is one of the two versions.
type version struct {
	dir    string // its work tree
	built  string // directory of its programs
	counts counts
}

type comparison struct {
	head, base version
	all        bool
	progress   func(string)
	unchanged  []string
	failed     []string // what could not be measured for the base
}

// try measures something of a version. Errors of the base are only noted, because the base
// cannot be changed.
func (c *comparison) try(ctx context.Context, v *version, f func() error) error {
	err := f()
	if err != nil && v == &c.base && ctx.Err() == nil {
		c.failed = append(c.failed, err.Error())
		return nil
	}
	return err
}

func (c *comparison) versions() []*version { return []*version{&c.base, &c.head} }

// Run compares, and returns a report with the table.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	if o.Base == "" {
		if o.Base, err = base(ctx, o.Root); err != nil {
			return nil, err
		}
	}
	commit, err := git(ctx, o.Root, "log", "-1", "--format=%h %s", o.Base)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "conclave-check-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	err = withTree(ctx, o.Root, o.Base, func(dir string) error {
		c := &comparison{all: o.All, progress: o.Progress,
			head: version{o.Root, filepath.Join(scratch, "head"), counts{}},
			base: version{dir, filepath.Join(scratch, "base"), counts{}}}
		for _, v := range c.versions() {
			if err := os.Mkdir(v.built, 0o755); err != nil {
				return err
			}
		}
		if err := c.benchmarks(ctx); err != nil {
			return err
		}
		if !o.NoServer {
			if err := c.server(ctx); err != nil {
				return err
			}
		}
		r = newReport(commit, c)
		return nil
	})
	return r, err
}

// A Report is the result of a comparison.
type Report struct {
	Base      string   `json:"base"`
	Counts    []Count  `json:"counts"`
	Unchanged []string `json:"unchanged"` // packages that are identical in both versions
	Failed    []string `json:"failed"`    // what the base does not build or run, with the reason
}

// A Count is a count of both versions; nil where a version does not have it.
type Count struct {
	Name    string   `json:"name"`
	Base    *float64 `json:"base"`
	Head    *float64 `json:"head"`
	Verdict string   `json:"verdict"`
}

// The verdicts; an unchanged count has none.
const (
	grown  = "GROWN"
	less   = "less"
	fresh  = "new"
	gone   = "gone"
	silent = "not judged"
)

func newReport(base string, c *comparison) *Report {
	r := &Report{Base: base, Unchanged: c.unchanged, Failed: c.failed}
	names := maps.Clone(c.head.counts)
	maps.Copy(names, c.base.counts)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		count := Count{Name: name}
		if v, ok := c.base.counts[name]; ok {
			count.Base = &v
		}
		if v, ok := c.head.counts[name]; ok {
			count.Head = &v
		}
		count.Verdict = count.judge()
		r.Counts = append(r.Counts, count)
	}
	return r
}

// growth is how much a count may grow: more is a regression, or must be justified.
const growth = 0.05

// grain is how many bytes per operation are always tolerated: occasional growth of a buffer
// is spread over the operations.
const grain = 8

// serverGrain is the same for system calls of the server, which does some periodic work
// regardless of load.
const serverGrain = 0.005

// judged reports whether a count depends only on the program. A read that returns nothing
// counts as a read, too, and whether one happens before each wait depends on when the next
// request arrives, except where the server waits for its disk meanwhile.
func judged(name string) bool {
	return !strings.HasSuffix(name, waits) && !(strings.HasPrefix(name, ofServer+"get") && strings.HasSuffix(name, reads))
}

func (c *Count) judge() string {
	switch {
	case c.Base == nil:
		return fresh
	case c.Head == nil:
		return gone
	case !judged(c.Name):
		return silent
	}
	slack := growth * *c.Base
	switch {
	case strings.HasSuffix(c.Name, " B/op"):
		slack = max(slack, grain)
	case strings.HasPrefix(c.Name, ofServer):
		slack = max(slack, serverGrain)
	}
	switch more := *c.Head - *c.Base; {
	case more > slack:
		return grown
	case -more > slack:
		return less
	}
	return ""
}

// Grown returns the names of the counts that have grown.
func (r *Report) Grown() []string {
	var names []string
	for _, c := range r.Counts {
		if c.Verdict == grown {
			names = append(names, c.Name)
		}
	}
	return names
}

// Text returns the table.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "counts, beside those of %s\n\n", r.Base)
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "count\tbase\tnow\t")
	for _, c := range r.Counts {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Name, show(c.Base), show(c.Head), c.Verdict)
	}
	w.Flush()
	if len(r.Unchanged) > 0 {
		fmt.Fprintf(&b, "\nbuilt alike, and so not measured: %s\n", strings.Join(r.Unchanged, ", "))
	}
	for _, why := range r.Failed {
		fmt.Fprintf(&b, "\nnot measured of %s: %s\n", r.Base, why)
	}
	return b.String()
}

func show(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v == float64(int64(*v)):
		return fmt.Sprintf("%.0f", *v)
	case *v >= 100:
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprintf("%.3f", *v)
}
