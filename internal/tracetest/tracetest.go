// Package tracetest plays stories: text files in a test's testdata, each a title
// and then commands to a machine with what the machine did, which are compared
// with what it does now.
//
// A story goes in as text and comes out of the package's own player as text; here
// is only what all packages share: finding the files, comparing, and writing them
// again with -rewrite. Commit rewritten stories only if you know why they changed.
package tracetest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the stories of testdata again")

// Run plays every testdata/*.txt, each as a test of its own name.
func Run(t *testing.T, play func(t *testing.T, story string) string) { RunDir(t, "testdata", play) }

// RunDir plays every *.txt of a directory.
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
