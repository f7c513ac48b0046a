// Command figures prints figures about the source next to the ones we aim at: lengths of
// files and functions, comments, and the share of tests. Nothing fails; the figures show
// where to look.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tally is what is counted over one set of files.
type tally struct {
	files, functions   []int // lengths in lines
	lines, comments    int
	wide               int // lines over 100 columns
	exported, spoken   int // exported functions, and those with a comment
	testLines, dataLen int
}

func main() {
	total := &tally{}
	if err := filepath.WalkDir(".", total.visit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	total.print()
}

// visit counts one file; directories without our own source are left out.
func (t *tally) visit(path string, d fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "tmp" || d.Name() == "target"):
		return fs.SkipDir
	case d.IsDir():
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	switch {
	case strings.Contains(filepath.ToSlash(path), "/testdata/"):
		t.dataLen += bytes.Count(text, []byte("\n"))
	case strings.HasSuffix(path, "_test.go"):
		t.testLines += bytes.Count(text, []byte("\n"))
	case strings.HasSuffix(path, ".go"):
		return t.source(path, text)
	}
	return nil
}

// source counts one file of code.
func (t *tally) source(path string, text []byte) error {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	lines := bytes.Split(text, []byte("\n"))
	t.files = append(t.files, len(lines))
	t.lines += len(lines)
	for _, line := range lines {
		if len(line) > 100 {
			t.wide++
		}
	}
	for _, c := range f.Comments {
		t.comments += set.Position(c.End()).Line - set.Position(c.Pos()).Line + 1
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		t.functions = append(t.functions, set.Position(fn.End()).Line-set.Position(fn.Pos()).Line+1)
		if fn.Name.IsExported() {
			t.exported++
			if fn.Doc != nil {
				t.spoken++
			}
		}
	}
	return nil
}

func (t *tally) print() {
	slices.Sort(t.files)
	slices.Sort(t.functions)
	long := len(t.functions) - quantileIndex(t.functions, 70)
	share := func(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(of, 1))) }
	for _, row := range [][3]string{
		{"figure", "here", "aim"},
		{"lines of code", fmt.Sprint(t.lines), ""},
		{"file length median / p95 / max", spread(t.files), "80-180 / 500 / 900"},
		{"function length median / p95 / p99", spread99(t.functions), "<= 8 / <= 40 / <= 80"},
		{"functions over 70 lines", share(long, len(t.functions)), "<= 1 %"},
		{"comment lines", share(t.comments, t.lines), "15-30 %"},
		{"exported functions documented", share(t.spoken, t.exported), "100 %"},
		{"lines over 100 columns", share(t.wide, t.lines), "< 1 %"},
		{"test lines / code lines", fmt.Sprintf("%.2f", float64(t.testLines)/float64(max(t.lines, 1))), "1.2"},
		{"lines of test data", fmt.Sprint(t.dataLen), ""},
	} {
		fmt.Printf("%-36s %-18s %s\n", row[0], row[1], row[2])
	}
}

// quantileIndex returns the number of values up to limit in a sorted list.
func quantileIndex(sorted []int, limit int) int {
	n, _ := slices.BinarySearch(sorted, limit+1)
	return n
}

func at(sorted []int, percent int) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100]
}

func spread(sorted []int) string {
	return fmt.Sprintf("%d / %d / %d", at(sorted, 50), at(sorted, 95), at(sorted, 100))
}

func spread99(sorted []int) string {
	return fmt.Sprintf("%d / %d / %d", at(sorted, 50), at(sorted, 95), at(sorted, 99))
}
