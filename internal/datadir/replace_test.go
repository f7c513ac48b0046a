package datadir

import (
	"errors"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

func TestTriggerIsDueBetweenHalfAndAll(t *testing.T) {
	for draw := int64(0); draw < 50; draw++ {
		trigger := NewTrigger(100, 0, func(n int64) int64 {
			if n != 50 {
				t.Fatalf("draw below %d", n)
			}
			return draw
		})
		count := int64(1)
		for !trigger.Note(1, 1000) {
			count++
		}
		if count != 51+draw {
			t.Fatalf("draw %d: due at %d", draw, count)
		}
		trigger.Reset()
		if trigger.Note(50, 0) {
			t.Fatal("due again at once")
		}
	}
	if !NewTrigger(1000, 1<<20, func(int64) int64 { return 0 }).Note(1, 600<<10) {
		t.Error("not due by bytes")
	}
}

// begun is a snapshot that is written and has not got its name yet.
func begun(t *testing.T, s *Store, zxid zk.Zxid) *SnapshotWriter {
	t.Helper()
	w, err := s.NewSnapshot(zxid)
	must(t, err)
	must(t, w.Begin(0, 0))
	must(t, w.Node("", nil, -1, &zk.StatPersisted{}))
	must(t, w.End(zxid, zk.Digest{Version: 2}, zxid))
	return w
}

// A periodic snapshot may be almost complete when a leader's state replaces its history. If it
// got its name then, the next start would load what was given up.
func TestSnapshotOfAHistoryThatWasGivenUpDoesNotAppear(t *testing.T) {
	for what, giveUp := range map[string]func(*Store) error{
		"replaced": func(s *Store) error { return s.Replace(20) },
		"cut":      func(s *Store) error { return s.Truncate(22) },
	} {
		disk := directory(t)
		s := open(t, disk)
		_, err := s.Recover(newModel)
		must(t, err)
		late := begun(t, s, 25)
		must(t, giveUp(s))
		if err := late.Commit(); !errors.Is(err, ErrGivenUp) {
			t.Errorf("%s: %v", what, err)
		}
		files, err := snap.Files(disk, s.SnapDir())
		must(t, err)
		if files[0].Zxid != 20 {
			t.Errorf("%s: the newest snapshot is %s", what, files[0].Name)
		}
		names, err := disk.List(s.SnapDir())
		must(t, err)
		for _, name := range names {
			if snap.IsTemp(name) {
				t.Errorf("%s: %s is left", what, name)
			}
		}
		must(t, s.Close())
	}
}

func TestTwoSnapshotsOfOneZxidDoNotDisturbEachOther(t *testing.T) {
	disk := directory(t)
	s := open(t, disk)
	_, err := s.Recover(newModel)
	must(t, err)
	first, second := begun(t, s, 25), begun(t, s, 25)
	first.Abort()
	must(t, second.Commit())
	_, err = snap.Verify(disk, s.SnapDir(), snap.File{Name: second.Name(), Zxid: 25}, snap.Options{})
	must(t, err)
	must(t, s.Close())
}

// A leader waits while a learner saves its state. Reading the whole snapshot again, before
// anything else happens, would double that time.
func TestReplaceDoesNotReadTheSnapshotAgain(t *testing.T) {
	disk, read := directory(t), 0
	s := open(t, &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if op.Kind == vfs.KindOpen && strings.HasSuffix(op.Name, "snapshot.1e") {
			read++
		}
		return nil
	}})
	_, err := s.Recover(newModel)
	must(t, err)
	must(t, writeSnapshot(s, 30, zxids(1, 30)))
	must(t, s.Replace(30))
	if read != 0 {
		t.Errorf("it was opened %d times", read)
	}
	must(t, s.Close())
	s = open(t, disk)
	if r, err := s.Recover(newModel); err != nil || r.Last != 30 || r.Snapshot.Zxid != 30 {
		t.Errorf("%+v, %v", r, err)
	}
	must(t, s.Close())
}
