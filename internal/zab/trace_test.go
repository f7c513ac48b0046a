package zab_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/zab/zabtest"
)

var rewrite = flag.Bool("rewrite", false, "write the traces of testdata anew; commit them only if you know why they changed")

// TestTraces plays every story of testdata; zabtest.Script names the commands.
func TestTraces(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := zabtest.Script(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if *rewrite {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("%s differs; got:\n%s", name, got)
			}
		})
	}
}
