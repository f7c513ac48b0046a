package backup_test

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A backup goes on with what was restored from it: no state is between the two, and an alert about a gap would be
// false.
func TestBackupOfWhatWasRestoredHasNoGap(t *testing.T) {
	w := newWritten(t)
	w.create(one(1), one(3))
	place := backup.OpenDir(vfs.NewMem(), "/")
	w.take(place, one(3), backup.Options{})
	b := open(t, place)
	state, err := b.Load(t.Context(), backup.Moment{Zxid: one(2)})
	w.must(err)
	disk := vfs.NewMem()
	begins, err := b.Restore(disk, datadir.Options{DataDir: "/restored"}, state)
	w.must(err)
	source := backup.Source{FS: disk, SnapDir: "/restored/version-2", LogDir: "/restored/version-2", Now: time.Now,
		Committed: func(context.Context) (zk.Zxid, error) { return backup.AllCommitted, nil }}
	taken, err := b.Take(t.Context(), source, backup.Options{})
	if err != nil || taken.Snapshot == "" || taken.Last != begins || taken.Gap {
		t.Errorf("%+v, %v", taken, err)
	}
}
