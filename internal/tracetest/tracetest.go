// Package tracetest runs stories: text files in a test's testdata. Each has a title,
// commands to a machine, and the expected output, which is compared with what the machine
// does now.
//
// The package under test turns the text of a story into the text with the current output.
// This package does what all of them share: it finds the files, compares, and rewrites them
// with -rewrite. Commit rewritten stories only if you know why they changed.
package tracetest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the stories of testdata again")

// Run runs every testdata/*.txt, each as a subtest with the file's name.
func Run(t *testing.T, play func(t *testing.T, story string) string) { RunDir(t, "testdata", play) }

// RunDir runs every *.txt of a directory.
func RunDir(t *testing.T, dir string, play func(t *testing.T, story string) string) {
	names, err := filepath.Glob(dir + "/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no stories in %s: %v", dir, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			switch {
			case got == string(text):
			case *rewrite:
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s differs; -rewrite writes it again. Got:\n%s", name, got)
			}
		})
	}
}
