package backup_test

import (
	"errors"
	"testing"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/vfs"
)

// A server writes a snapshot again, with parts of later transactions, while it is copied.
func TestSnapshotThatIsWrittenAgainMeanwhileIsCopiedExactly(t *testing.T) {
	w := newWritten(t)
	w.digests = false // a znode that w creates counts twice if its transaction is replayed
	w.create(1, 10)
	w.snapshot()
	later := replicadisk.Begin(w.live, nil)
	w.create(11, 14)
	source, opened := w.source(14), 0
	source.FS = &vfs.Faulty{Disk: w.disk, Before: func(op vfs.Op) error {
		if op.Kind != vfs.KindOpen || op.Name != "/data/version-2/snapshot.a" {
			return nil
		}
		if opened++; opened == 2 {
			_, err := later.Save(w.store, nil)
			return err
		}
		return nil
	}}
	place := backup.OpenDir(vfs.NewMem(), "/")
	_, err := open(t, place).Take(t.Context(), source, backup.Options{})
	w.must(err)
	if opened < 3 {
		t.Errorf("it was opened %d times", opened)
	}
	restores(t, place, 14)
	if state, err := open(t, place).Load(t.Context(), backup.Moment{Zxid: 10}); !errors.Is(err, backup.ErrOutside) {
		t.Errorf("the snapshot is of 14 by then: %+v, %v", state, err)
	}
}
