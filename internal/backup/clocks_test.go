package backup_test

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
)

// days has a server of which a backup was taken each day, with a snapshot, and a clock that the test sets.
func days(t *testing.T, n int) (w *written, place backup.Place, clock *time.Time) {
	t.Helper()
	w = newWritten(t)
	now := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	w.now = func() time.Time { return now }
	place = backup.OpenDir(vfs.NewMem(), "/")
	for range n {
		last := w.live.LastZxid()
		w.create(last+1, last+10)
		w.snapshot()
		w.create(last+11, last+12)
		w.take(place, last+12, backup.Options{Snapshot: true})
		now = now.Add(24 * time.Hour)
	}
	return w, place, &now
}

// The clock of the machine that prunes is ten years ahead, or the backup has not grown for so long.
func TestPruneByAWrongClockKeepsTheLastDays(t *testing.T) {
	_, place, clock := days(t, 6)
	b := open(t, place)
	before := b.Ranges()
	removed, err := b.Keep(t.Context(), clock.AddDate(10, 0, 0), 72*time.Hour)
	if err != nil || len(removed) == 0 {
		t.Fatalf("removed %q, %v", removed, err)
	}
	after := b.Ranges()
	if len(after) < 3 || after[0].FirstTime.After(before[len(before)-1].LastTime.Add(-72*time.Hour)) {
		t.Errorf("of the last three days there is\n%v\nof\n%v", after, before)
	}
}

// A snapshot that was copied while the clock was ahead is no reason to copy none for as long.
func TestSnapshotOfAFutureIsFollowedByOthers(t *testing.T) {
	w, place, clock := days(t, 1)
	*clock = clock.AddDate(10, 0, 0)
	last := w.live.LastZxid()
	w.create(last+1, last+10)
	w.snapshot()
	w.take(place, last+10, backup.Options{Snapshot: true})
	*clock = clock.AddDate(-10, 0, 1)
	w.create(last+11, last+20)
	w.snapshot()
	o := backup.Options{SnapshotEvery: 24 * time.Hour}
	if taken := w.take(place, last+20, o); taken.Snapshot == "" {
		t.Error("none was copied")
	}
	w.create(last+21, last+30)
	w.snapshot()
	if taken := w.take(place, last+30, o); taken.Snapshot != "" {
		t.Error("another one was copied at once")
	}
}
