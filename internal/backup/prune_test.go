package backup

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/vfs"
)

// A take that was killed after its snapshot, and whose log was purged meanwhile, leaves a
// snapshot from which nothing can be restored. It replaces no older one.
func TestPruneKeepsTheLastSnapshotThatCanBeRestored(t *testing.T) {
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	all := []piece{
		newPiece(false, 10, 10, day), newPiece(true, 10, 20, day.Add(time.Hour)),
		newPiece(false, 20, 25, day.AddDate(0, 0, 1)), newPiece(true, 20, 28, day.AddDate(0, 0, 1)),
		newPiece(false, 40, 45, day.AddDate(0, 0, 3)), // no log leads from 40 to 45
	}
	place := OpenDir(vfs.NewMem(), "/")
	for _, p := range all {
		if err := place.Put(t.Context(), p.name, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }); err != nil {
			t.Fatal(err)
		}
	}
	b, err := Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	removed, err := b.Prune(t.Context(), day.AddDate(0, 0, 9))
	if err != nil || !slices.Equal(removed, []string{all[0].name}) { // the log before 20 has the record of 20, to compare
		t.Errorf("removed %q, %v", removed, err)
	}
	if ranges := b.Ranges(); len(ranges) == 0 || ranges[0].Last != 28 {
		t.Errorf("what can be restored: %+v", ranges)
	}
}
