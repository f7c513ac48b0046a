package backup_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A server that has less than the backup is behind, or its history was begun again, or
// continues from an older copy of its directory. In the latter cases no backup contains what it
// writes, and a take must not report that there is nothing new, nor copy a snapshot that the
// log of the backup does not continue.
func TestHistoryThatHasLessThanTheBackupIsTold(t *testing.T) {
	began := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	// write gives each transaction a minute of its own, and those after common an hour more.
	write := func(w *written, last, common uint32) {
		for n := uint32(1); n <= last; n++ {
			at := began.Add(time.Duration(n) * time.Minute)
			if n > common {
				at = at.Add(time.Hour)
			}
			w.now = func() time.Time { return at }
			if n == 12 || n == 18 {
				w.snapshot()
			}
			w.create(one(n), one(n))
		}
	}
	mem := vfs.NewMem()
	place := backup.OpenDir(mem, "/")
	whole := newWritten(t)
	write(whole, 40, 40)
	for _, last := range []uint32{10, 20, 30, 40} {
		whole.take(place, one(last), backup.Options{})
	}
	for _, c := range []struct {
		name         string
		last, common uint32
		other        bool
	}{
		{"behind", 25, 25, false},
		{"far behind", 5, 5, false},
		{"begun again", 25, 0, true},
		{"an older copy", 25, 15, true},
		{"an older copy, of which nothing can be compared yet", 25, 20, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWritten(t)
			write(w, c.last, c.common)
			before, _ := mem.List("/")
			for _, o := range []backup.Options{{}, {Snapshot: true}, {SnapshotEvery: time.Millisecond}} {
				for _, committed := range []zk.Zxid{one(c.last), backup.AllCommitted} {
					taken, err := open(t, place).Take(t.Context(), w.source(committed), o)
					if errors.Is(err, backup.ErrOtherHistory) != c.other || !c.other && (err != nil || taken.Last != one(40)) {
						t.Errorf("%+v, %v", taken, err)
					}
				}
			}
			if after, _ := mem.List("/"); !slices.Equal(before, after) {
				t.Errorf("%q became %q", before, after)
			}
		})
	}
}

// States that were pruned cannot be compared.
func TestHistoryThatEndsBeforeTheBackupBeginsIsTold(t *testing.T) {
	w := newWritten(t)
	w.become(one(100))
	w.create(one(101), one(110))
	place := backup.OpenDir(vfs.NewMem(), "/")
	if err := w.disk.Remove(w.store.SnapDir() + "/snapshot.0"); err != nil {
		t.Fatal(err)
	}
	w.take(place, one(110), backup.Options{})
	again := newWritten(t)
	again.create(one(1), one(3))
	if taken, err := open(t, place).Take(t.Context(), again.source(one(3)), backup.Options{}); !errors.Is(err, backup.ErrOtherHistory) {
		t.Errorf("%+v, %v", taken, err)
	}
}
