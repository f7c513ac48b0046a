package backup_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// failing is a place where the next file of a kind cannot be written.
type failing struct {
	backup.Place
	prefix string
	err    error
}

func (p *failing) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	if err := p.err; err != nil && strings.HasPrefix(name, p.prefix) {
		p.err = nil
		return err
	}
	return p.Place.Put(ctx, name, write)
}

// The newest snapshot determines where the next take continues: it must not be there before the
// log that leads to it.
func TestInterruptedTakeLeavesNoGap(t *testing.T) {
	full := errors.New("no space left on device")
	for _, c := range []struct {
		name, prefix string
		err          error
	}{
		{"the log is not written", "log-", full},
		{"the snapshot is not written", "snapshot-", full},
		{"a file is purged under the take, which begins again", "log-", fs.ErrNotExist},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWritten(t)
			w.create(1, 10)
			place := &failing{Place: backup.OpenDir(vfs.NewMem(), "/"), prefix: c.prefix}
			w.take(place, 10, backup.Options{})
			w.create(11, 30)
			w.snapshot()
			w.create(31, 40)
			place.err = c.err
			_, err := open(t, place).Take(t.Context(), w.source(40), backup.Options{Snapshot: true})
			if (err != nil) != (c.err == full) {
				t.Fatal(err)
			}
			if taken := w.take(place, 40, backup.Options{}); taken.Gap || taken.Last != 40 {
				t.Errorf("%+v", taken)
			}
			restores(t, place, 10, 11, 20, 29, 30, 40)
		})
	}
}

// A take that begins again has not forgotten what it has already done.
func TestGapIsToldByATakeThatBeginsAgain(t *testing.T) {
	w := newWritten(t)
	w.create(1, 10)
	place := &failing{Place: backup.OpenDir(vfs.NewMem(), "/"), prefix: "log-"}
	w.take(place, 10, backup.Options{})
	for zxid := zk.Zxid(11); zxid < 50; zxid += 10 {
		w.create(zxid, zxid+9)
		w.snapshot()
	}
	w.create(51, 60)
	_, err := w.store.Purge(3)
	w.must(err)
	place.err = fs.ErrNotExist
	if taken := w.take(place, 60, backup.Options{}); !taken.Gap || taken.Snapshot == "" || taken.Last != 60 {
		t.Errorf("%+v", taken)
	}
	restores(t, place, 10, 50, 60)
}
