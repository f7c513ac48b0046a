//go:build !unix

package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The error names what the system lacks, and nothing is left of the attempt.
func TestSystemWithoutLocksIsRefusedFirst(t *testing.T) {
	dir := filepath.Join(os.TempDir(), "conclave-makes-nothing-here")
	if _, err := New(dir); !errors.Is(err, errNoFlock) {
		t.Errorf("opened with %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a directory was made")
	}
}
