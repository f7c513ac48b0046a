package backup_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The first take of a server copies a snapshot that is older than the log after it. The times
// from the first transaction on are available, those before it and after the last are not.
func TestTimesBeforeTheCopyOfASnapshotAreThere(t *testing.T) {
	w := newWritten(t)
	clock := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	w.now = func() time.Time { return clock }
	begin := clock.Add(time.Minute)
	for zxid := zk.Zxid(1); zxid <= 10; zxid++ {
		clock = clock.Add(time.Minute)
		w.create(zxid, zxid)
	}
	clock = clock.Add(time.Hour)
	copied := clock
	place := backup.OpenDir(vfs.NewMem(), "/")
	w.take(place, 10, backup.Options{})
	for zxid := zk.Zxid(11); zxid <= 20; zxid++ {
		clock = clock.Add(time.Minute)
		w.create(zxid, zxid)
	}
	end := clock
	w.take(place, 20, backup.Options{})
	b := open(t, place)

	for _, c := range []struct {
		at   time.Time
		last zk.Zxid
		why  string
	}{
		{at: begin.Add(-time.Second), why: "it begins at 0x0, 2026-11-24T00:01:00Z"},
		{at: begin, last: 1},
		{at: begin.Add(4*time.Minute + time.Second), last: 5},
		{at: copied.Add(-time.Second), last: 10},
		{at: copied.Add(time.Second), last: 10},
		{at: copied.Add(3 * time.Minute), last: 13},
		{at: end, last: 20},
		{at: end.Add(time.Second), why: "it ends at 0x14, 2026-11-24T01:20:00Z"},
		{at: end.AddDate(4, 0, 0), why: "it ends at 0x14, 2026-11-24T01:20:00Z"},
	} {
		state, err := b.Load(t.Context(), backup.Moment{Time: c.at})
		switch {
		case c.why == "" && (err != nil || state.Zxid != c.last):
			t.Errorf("%s: %+v, %v", c.at, state, err)
		case c.why != "" && (!errors.Is(err, backup.ErrOutside) || !strings.Contains(err.Error(), c.why)):
			t.Errorf("%s: %v", c.at, err)
		}
	}
	ranges, err := b.TimedRanges(t.Context())
	if err != nil || len(ranges) != 1 || !ranges[0].FirstTime.Equal(begin) || !ranges[0].LastTime.Equal(end) {
		t.Errorf("%v, %+v", err, ranges)
	}
}

// A snapshot that was copied later does not show when its state existed, if no log does.
func TestTimesOfALoneSnapshotBeginWithItsCopy(t *testing.T) {
	w := newWritten(t)
	clock := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	w.now = func() time.Time { return clock }
	w.become(7)
	clock = clock.Add(time.Hour)
	place := backup.OpenDir(vfs.NewMem(), "/")
	w.take(place, 7, backup.Options{})
	b := open(t, place)
	if state, err := b.Load(t.Context(), backup.Moment{Time: clock}); err != nil || state.Zxid != 7 {
		t.Errorf("%+v, %v", state, err)
	}
	for _, at := range []time.Time{clock.Add(-time.Second), clock.Add(time.Second)} {
		if _, err := b.Load(t.Context(), backup.Moment{Time: at}); !errors.Is(err, backup.ErrOutside) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if ranges, err := b.TimedRanges(t.Context()); err != nil || len(ranges) != 1 || !ranges[0].FirstTime.Equal(clock) {
		t.Errorf("%v, %+v", err, ranges)
	}
}
