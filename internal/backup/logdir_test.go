package backup_test

import (
	"errors"
	"testing"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The log has a directory of its own, and the take looks for it in another one: --log-dir was
// forgotten, or its volume is not mounted.
func TestTakeWithoutTheLogIsRefused(t *testing.T) {
	for _, noted := range []bool{true, false} {
		w := newWritten(t)
		w.create(1, 20)
		if noted {
			w.must(vfs.ReplaceFile(w.disk, "/data/version-2/log-at", "/data/version-2/t", []byte("n1\n/log/version-2\n")))
		}
		committed := zk.Zxid(20)
		if !noted { // more than may be on its way to the disk
			committed = 2000
			w.create(21, committed)
		}
		s := w.source(committed)
		s.LogDir = "/other/version-2"
		w.must(w.disk.MkdirAll(s.LogDir))
		place := backup.OpenDir(vfs.NewMem(), "/")
		for range 2 {
			taken, err := open(t, place).Take(t.Context(), s, backup.Options{})
			if err == nil || noted != errors.As(err, new(*datadir.LogElsewhere)) {
				t.Errorf("noted %t: %+v, %v", noted, taken, err)
			}
		}
		w.must(w.disk.MkdirAll("/log/version-2"))
		s.LogDir = "/data/version-2"
		w.must(vfs.ReplaceFile(w.disk, "/data/version-2/log-id", "/data/version-2/t", []byte("n1\n")))
		if taken, err := open(t, place).Take(t.Context(), s, backup.Options{}); err != nil || taken.Last != committed || taken.Committed != 0 {
			t.Errorf("%+v, %v", taken, err)
		}
	}
}

// Transactions that a server has committed but not in its log are in no backup. That is
// reported.
func TestTakeOfALogThatEndsTooSoonIsTold(t *testing.T) {
	w := newWritten(t)
	w.create(1, 20)
	place := backup.OpenDir(vfs.NewMem(), "/")
	if taken := w.take(place, 30, backup.Options{}); taken.Last != 20 || taken.Committed != 30 {
		t.Errorf("%+v", taken)
	}
	if taken := w.take(place, 30, backup.Options{}); taken.Last != 20 || taken.Committed != 30 {
		t.Errorf("again: %+v", taken)
	}
	if taken := w.take(place, two(0), backup.Options{}); taken.Committed != 0 {
		t.Errorf("an epoch that has no transaction yet: %+v", taken)
	}
	if taken := w.take(place, backup.AllCommitted, backup.Options{}); taken.Committed != 0 {
		t.Errorf("a server that is stopped: %+v", taken)
	}
	s := w.source(30)
	s.LogDir = "/data/none" // the first log of a server may still be under creation
	w.must(w.disk.MkdirAll(s.LogDir))
	if taken, err := open(t, backup.OpenDir(vfs.NewMem(), "/")).Take(t.Context(), s, backup.Options{}); err != nil || taken.Committed != 30 {
		t.Errorf("no log yet: %+v, %v", taken, err)
	}
	w.create(21, 30)
	if taken := w.take(place, 30, backup.Options{}); taken.Last != 30 || taken.Committed != 0 {
		t.Errorf("%+v", taken)
	}
}
