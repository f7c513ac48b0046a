package election_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/election"
)

// TestDiskCheckPassesWhileFilesCanBeWritten, and leaves no file behind.
func TestDiskCheckPassesWhileFilesCanBeWritten(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "data")
	check := election.DiskCheck(directory)
	if err := check(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the directory the check returned %v", err)
	}
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := check(t.Context()); err != nil {
		t.Errorf("with the directory the check returned %v", err)
	}
	left, err := os.ReadDir(directory)
	if err != nil || len(left) > 0 {
		t.Errorf("the check left %v, %v", left, err)
	}
}

// TestChecksPassWhenAllDo: the first check that fails ends them.
func TestChecksPassWhenAllDo(t *testing.T) {
	sick := errors.New("sick")
	called := ""
	check := func(name string, err error) func(context.Context) error {
		return func(context.Context) error {
			called += name
			return err
		}
	}
	if err := election.Checks(check("a", nil), check("b", nil))(t.Context()); err != nil || called != "ab" {
		t.Errorf("two that pass: %v, called %q", err, called)
	}
	called = ""
	if err := election.Checks(check("a", nil), check("b", sick), check("c", nil))(t.Context()); !errors.Is(err, sick) || called != "ab" {
		t.Errorf("the second one fails: %v, called %q", err, called)
	}
	if err := election.Checks()(t.Context()); err != nil {
		t.Errorf("no check: %v", err)
	}
}
