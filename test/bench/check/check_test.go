//go:build linux

package check

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheLeastOfEachCountIsRead(t *testing.T) {
	got := parse(`goos: linux
BenchmarkSetData/100-90-2   	   50000	       512.0 ns/op	     108 B/op	       3 allocs/op
BenchmarkSetData/100-90-2   	   50000	       498.0 ns/op	     104 B/op	       4 allocs/op
BenchmarkZnode-16   	 2	 1 ns/op	 201.5 B/znode	 9 B/op	 8 allocs/op
BenchmarkAppend100-2   	10000	 126.6 ns/op	 789.72 MB/s	 4 B/op	 0 allocs/op
PASS
`)
	want := counts{"SetData/100-90 B/op": 104, "SetData/100-90 allocs/op": 3, "Znode B/znode": 201.5, "Znode B/op": 9,
		"Znode allocs/op": 8, "Append100 B/op": 4, "Append100 allocs/op": 0}
	if !maps.Equal(got, want) {
		t.Errorf("read %v", got)
	}
}

func TestWhatHasGrownIsNamed(t *testing.T) {
	for _, c := range []struct {
		name       string
		base, head float64 // negative: this version does not have it
		want       string
	}{
		{"wire Decode allocs/op", 0, 1, grown},
		{"wire Decode allocs/op", 1, 0, less},
		{"replica Writes allocs/op", 72, 75, ""},
		{"replica Writes allocs/op", 72, 76, grown},
		{"tree SetData B/op", 0, 8, ""},
		{"tree SetData B/op", 0, 9, grown},
		{"tree SetData B/op", 1000, 1049, ""},
		{"tree SetData B/op", 1000, 1051, grown},
		{"tree Znode B/znode", 200, 211, grown},
		{"tree Znode B/znode", 200, 189, less},
		{"tree Fresh B/op", -1, 5, fresh},
		{"tree Gone B/op", 5, -1, gone},
		{"server set, one at a time writes/op", 3.003, 4.003, grown},
		{"server set, one at a time reads/op", 2.004, 2.2, grown},
		{"server set, one at a time syncs/op", 1.001, 1.04, ""},
		{"server get, one at a time syncs/op", 0, 0.004, ""},
		{"server get, one at a time reads/op", 1.4, 1.8, silent},
		{"server set, one at a time waits/op", 1, 9, silent},
	} {
		both := comparison{head: version{counts: counts{}}, base: version{counts: counts{}}}
		if c.base >= 0 {
			both.base.counts[c.name] = c.base
		}
		if c.head >= 0 {
			both.head.counts[c.name] = c.head
		}
		r := newReport("abc a commit", &both)
		if len(r.Counts) != 1 || r.Counts[0].Verdict != c.want || (len(r.Grown()) == 1) != (c.want == grown) {
			t.Errorf("%s from %v to %v: %+v, expected %q", c.name, c.base, c.head, r.Counts, c.want)
		}
		if text := r.Text(); !strings.Contains(text, c.name) || !strings.Contains(text, "abc a commit") {
			t.Errorf("the table has no %s:\n%s", c.name, text)
		}
	}
}

// repository creates a repository with a module, and one commit for each text of a file.
func repository(t *testing.T, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	do := func(args ...string) {
		t.Helper()
		if _, err := git(t.Context(), dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	do("init", "--quiet")
	for _, text := range texts {
		put(t, dir, "go.mod", "module example.org/m\n\ngo 1.26\n")
		put(t, dir, "internal/wire/m.go", "package wire\n\nvar Sink []byte\n\n"+text)
		put(t, dir, "internal/wire/m_test.go", "package wire\n\nimport \"testing\"\n\n"+
			"func BenchmarkDecode(b *testing.B) {\n\tb.ReportAllocs()\n\tfor b.Loop() {\n\t\tDecode()\n\t}\n}\n")
		do("add", ".")
		do("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message", "a commit")
	}
	return dir
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const (
	frugal = "func Decode() {}\n"
	lavish = "func Decode() { Sink = make([]byte, 100) }\n"
	broken = "func Decode() { panic(\"broken\") }\n"
)

func runIn(t *testing.T, root string) *Report {
	t.Helper()
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	r, err := Run(t.Context(), Options{Root: root, NoServer: true, Progress: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	trees, err := git(t.Context(), root, "worktree", "list")
	if err != nil || strings.Count(trees, "\n") != 0 {
		t.Errorf("a work tree is left: %s, %v", trees, err)
	}
	return r
}

// TestAnAllocationIsFound changes a package that processes requests: in a commit, or in the
// work tree.
func TestAnAllocationIsFound(t *testing.T) {
	name := "internal/wire Decode allocs/op"
	root := repository(t, frugal, lavish)
	if got := runIn(t, root).Grown(); !slices.Contains(got, name) {
		t.Errorf("the last commit allocates, found %q", got)
	}
	put(t, root, "internal/wire/m.go", "package wire\n\n"+frugal)
	if r := runIn(t, root); len(r.Grown()) > 0 || r.Counts[1].Verdict != less {
		t.Errorf("without it %+v", r.Counts)
	}
}

func TestWhatIsBuiltAlikeIsNotMeasured(t *testing.T) {
	root := repository(t, frugal)
	put(t, root, "README.md", "changed")
	if r := runIn(t, root); !slices.Equal(r.Unchanged, []string{"internal/wire"}) || len(r.Counts) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestABaseThatFailsIsNoted(t *testing.T) {
	r := runIn(t, repository(t, broken, frugal))
	if len(r.Failed) != 1 || !strings.Contains(r.Text(), "panic: broken") || len(r.Grown()) > 0 {
		t.Errorf("%+v", r)
	}
	root := repository(t, frugal, broken)
	_, err := Run(t.Context(), Options{Root: root, NoServer: true, Progress: func(string) {}})
	if err == nil || !strings.Contains(err.Error(), "panic: broken") {
		t.Errorf("the tree itself is broken: %v", err)
	}
}

func TestTheFirstCommitHasNoBase(t *testing.T) {
	_, err := Run(t.Context(), Options{Root: repository(t, frugal), NoServer: true, Progress: func(string) {}})
	if !errors.Is(err, ErrNoBase) {
		t.Errorf("%v", err)
	}
}

// TestTheTreeIsRemovedAfterAnInterrupt: otherwise git would refuse to create it again.
func TestTheTreeIsRemovedAfterAnInterrupt(t *testing.T) {
	root := repository(t, frugal)
	ctx, interrupt := context.WithCancel(t.Context())
	err := withTree(ctx, root, "HEAD", func(string) error {
		interrupt()
		return ctx.Err()
	})
	trees, listErr := git(t.Context(), root, "worktree", "list")
	if !errors.Is(err, context.Canceled) || listErr != nil || strings.Count(trees, "\n") != 0 {
		t.Errorf("%v; left: %s, %v", err, trees, listErr)
	}
}
