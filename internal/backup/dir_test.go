package backup_test

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/backup"
)

// A take that was killed leaves a file that it was writing, under a name that no later one has.
func TestWhatAKilledTakeLeftIsRemoved(t *testing.T) {
	disk := takenOften(t, true)
	name, content := find(t, disk, "log-")
	put(t, disk, "tmp."+name, content[:20])
	put(t, disk, "tmp.of-somebody", content[:20])
	place, err := backup.LockDir(disk, "/")
	if err != nil {
		t.Fatal(err)
	}
	defer place.Close()
	left, err := place.List(t.Context())
	if err != nil || slices.Contains(left, "tmp."+name) || !slices.Contains(left, name) || !slices.Contains(left, "tmp.of-somebody") {
		t.Errorf("%v, %v", left, err)
	}
	failed := errors.New("full")
	if err := place.Put(t.Context(), "x", func(io.Writer) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
}
