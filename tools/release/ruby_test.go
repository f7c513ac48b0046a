//go:build packages

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFormulaIsRuby takes Debian's package ruby.
func TestFormulaIsRuby(t *testing.T) {
	sums := map[string]string{}
	for _, one := range targets {
		sums[archiveName("0.2.0", one)] = "0000000000000000000000000000000000000000000000000000000000000000"
	}
	text, err := formula("0.2.0", sums)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "conclave.rb")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := output(".", "ruby", "-c", file); err != nil || out != "Syntax OK" {
		t.Error(out, err)
	}
}
