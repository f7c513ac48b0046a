package backup_test

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
)

// days makes a server of which a backup was taken each day, with a snapshot, and a clock that
// the test sets.
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

// The clock of the machine that prunes is ten years ahead, or the backup has not grown for as
// long.
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

// The clock of the leader, which takes the backup and prunes it, is ten years ahead, and so are
// its transactions.
func TestClockThatIsAheadForAllKeepsTheDaysBefore(t *testing.T) {
	w, place, clock := days(t, 6)
	wanted := clock.AddDate(0, 0, -2) // of the last three days there are
	*clock = clock.AddDate(10, 0, 0)
	for range 2 {
		last := w.live.LastZxid()
		w.create(last+1, last+10)
		w.snapshot()
		w.take(place, last+10, backup.Options{Snapshot: true})
		if _, err := open(t, place).Keep(t.Context(), *clock, 72*time.Hour); err != nil {
			t.Fatal(err)
		}
		*clock = clock.Add(5 * time.Minute)
	}
	if state, err := open(t, place).Load(t.Context(), backup.Moment{Time: wanted}); err != nil || state.Zxid != 60 {
		t.Errorf("the state of %s: %+v, %v; there is %v", wanted, state, err, open(t, place).Ranges())
	}
}

// A machine without a clock of its own copies a snapshot in the year 2000: that is not a state
// of the year 2000.
func TestSnapshotOfAPastIsNoStateOfThen(t *testing.T) {
	w, place, clock := days(t, 6)
	now := *clock
	last := w.live.LastZxid()
	w.create(last+1, last+10)
	w.snapshot()
	w.create(last+11, last+12)
	*clock = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	if taken := w.take(place, last+12, backup.Options{SnapshotEvery: 24 * time.Hour}); taken.Snapshot == "" {
		t.Fatal("none was copied")
	}
	*clock = now.Add(24 * time.Hour)
	w.create(last+13, last+20)
	w.take(place, last+20, backup.Options{})
	wanted := now.AddDate(0, 0, -2)
	for _, pruned := range []bool{false, true} {
		b := open(t, place)
		if pruned {
			if _, err := b.Keep(t.Context(), *clock, 7*24*time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if state, err := b.Load(t.Context(), backup.Moment{Time: wanted}); err != nil || state.Zxid != 60 {
			t.Errorf("pruned %t: the state of %s: %+v, %v", pruned, wanted, state, err)
		}
	}
}
