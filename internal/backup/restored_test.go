package backup_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A backup continues with what was restored from it: there is no state in between, and an alert
// about a gap would be false.
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

// A restore into the directory of a server whose log is elsewhere reports that it has a
// history. It does not explain how to start with that history, nor which of its files gives up
// the log.
func TestRestoreOverAHistoryWithItsLogElsewhereSaysSo(t *testing.T) {
	w := newWritten(t)
	w.create(one(1), one(3))
	place := backup.OpenDir(vfs.NewMem(), "/")
	w.take(place, one(3), backup.Options{})
	b := open(t, place)
	state, err := b.Load(t.Context(), backup.Moment{})
	w.must(err)
	disk := vfs.NewMem()
	w.must(disk.MkdirAll("/killed/version-2"))
	w.must(vfs.ReplaceFile(disk, "/killed/version-2/tmp.snapshot.100", "/killed/version-2/tmp", []byte("a part")))
	if _, err := b.Restore(disk, datadir.Options{DataDir: "/killed"}, state); err != nil {
		t.Errorf("after a restore that was killed: %v", err)
	}
	w.must(disk.MkdirAll("/data/version-2"))
	w.must(vfs.ReplaceFile(disk, "/data/version-2/log-at", "/data/version-2/log-at.tmp", []byte("17\n/log/version-2\n")))
	_, err = b.Restore(disk, datadir.Options{DataDir: "/data"}, state)
	if err == nil || !strings.Contains(err.Error(), "/data/version-2 has a history already (log-at)") {
		t.Errorf("%v", err)
	}
}
