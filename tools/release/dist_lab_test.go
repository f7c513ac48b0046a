//go:build release && linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestReleasedProgramCarriesTheLaboratory, and the documentation, so it needs neither the
// go command nor sources.
func TestReleasedProgramCarriesTheLaboratory(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "tree")
	must(t, nil, "../..", "git", "clone", "--quiet", "--shared", ".", tree)
	if err := errors.Join(carryLaboratory(tree), carryDocs(tree, "v9.9.9")); err != nil {
		t.Fatal(err)
	}
	if changed := must(t, nil, tree, "git", "status", "--porcelain"); changed != "" {
		t.Errorf("a build says of itself that its tree has changed:\n%s", changed)
	}
	program, site := filepath.Join(t.TempDir(), "conclave"), filepath.Join(t.TempDir(), "site")
	must(t, nil, tree, "go", "build", "-trimpath", "-pgo=off", "-tags=labcarried", "-ldflags=-s -w", "-o", program, "./cmd/conclave")
	must(t, []string{"PATH=/nowhere"}, tree, program, "lab", "--export", site)
	docs := filepath.Join(t.TempDir(), "docs")
	must(t, []string{"PATH=/nowhere"}, tree, program, "docs", "--export", docs)
	for _, name := range []string{"index.html", "versions.js", "v9.9.9/docs/concepts.html", "v9.9.9/lab/lab.wasm"} {
		if info, err := os.Stat(filepath.Join(docs, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"index.html", "lab.wasm", "wasm_exec.js"} {
		if info, err := os.Stat(filepath.Join(site, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
