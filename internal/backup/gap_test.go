package backup_test

import (
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The log between two takes was purged: no state of that time is known, and the one before it
// is not the one that was asked for.
func TestTimeInAGapIsRefused(t *testing.T) {
	w := newWritten(t)
	clock := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	w.now = func() time.Time { return clock }
	place := backup.OpenDir(vfs.NewMem(), "/")
	times := map[zk.Zxid]time.Time{}
	create := func(first, last zk.Zxid) {
		for zxid := first; zxid <= last; zxid++ {
			clock = clock.Add(time.Minute)
			w.create(zxid, zxid)
			times[zxid] = clock
			clock = clock.Add(time.Minute)
		}
	}
	w.take(place, 0, backup.Options{})
	create(1, 10)
	w.take(place, 10, backup.Options{})
	for range 3 {
		last := w.live.LastZxid()
		create(last+1, last+10)
		w.snapshot()
	}
	create(41, 50)
	_, err := w.store.Purge(1)
	w.must(err)
	if taken := w.take(place, 50, backup.Options{}); !taken.Gap {
		t.Fatal("no gap")
	}
	create(51, 60)
	w.take(place, 60, backup.Options{})
	b := open(t, place)
	for zxid, there := range map[zk.Zxid]bool{1: true, 9: true, 11: false, 25: false, 39: false, 45: true, 55: true, 60: false} {
		state, err := b.Load(t.Context(), backup.Moment{Time: times[zxid].Add(time.Second)})
		switch {
		case there && (err != nil || state.Zxid != zxid):
			t.Errorf("the time of %s: %+v, %v", zxid, state, err)
		case !there && !errors.Is(err, backup.ErrOutside):
			t.Errorf("the time of %s, which nobody has: %v", zxid, err)
		}
	}
	if state, err := b.Load(t.Context(), backup.Moment{Time: times[60]}); err != nil || state.Zxid != 60 {
		t.Errorf("at the end: %v", err)
	}
	ranges, err := b.TimedRanges(t.Context())
	if err != nil || len(ranges) != 2 || ranges[1].FirstTime.Before(times[39]) || ranges[1].FirstTime.After(times[41]) {
		t.Errorf("%v, %+v", err, ranges)
	}
}
