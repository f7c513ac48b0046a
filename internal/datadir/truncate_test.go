package datadir

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

func TestTruncateEndsThereAfterEveryCrashOrChangesNothing(t *testing.T) {
	for _, last := range []zk.Zxid{3, 10, 15, 20, 22, 25} {
		s := open(t, directory(t))
		must(t, s.Truncate(last))
		crashed := s.fs.(*vfs.Mem).CrashClone(0, 1)
		r, err := open(t, crashed).Recover(newModel)
		if err != nil || r.Last != last {
			t.Fatalf("to %s: %+v %v", last, r, err)
		}
		must(t, r.Target.(*model).holds(zxids(1, 25), last))
	}
	for _, last := range []zk.Zxid{26, 0x100000000, -1} {
		disk := directory(t)
		s := open(t, disk)
		if err := s.Truncate(last); !errors.Is(err, ErrNeedSnapshot) {
			t.Errorf("to %s: %v", last, err)
		}
		must(t, s.Close())
		if r, err := open(t, disk).Recover(newModel); err != nil || r.Last != 25 {
			t.Errorf("to %s: %+v %v", last, r, err)
		}
	}
	disk := directory(t)
	s := open(t, disk)
	damage(t, disk, "data/version-2/snapshot.0", 20)
	if err := s.Truncate(5); !errors.Is(err, ErrNeedSnapshot) {
		t.Errorf("below every whole snapshot: %v", err)
	}
}

// writeFuzzy writes a snapshot of 22 that contains a change of 24.
func writeFuzzy(t *testing.T, s *Store) {
	t.Helper()
	w, err := s.NewSnapshot(22)
	must(t, err)
	must(t, w.Begin(0, 0))
	must(t, w.Node("", nil, -1, &zk.StatPersisted{}))
	must(t, w.End(24, zk.Digest{Version: 2}, 24))
	must(t, w.Commit())
}

// The transactions up to a snapshot may be in nothing else: purged, or never here because the leader
// sent the snapshot.
func TestTruncateEndsAtASnapshotWhoseTransactionsAreNotInTheLog(t *testing.T) {
	disk := directory(t)
	for _, name := range []string{"log.1", "log.b"} {
		must(t, disk.Remove("logs/version-2/"+name))
	}
	s := open(t, disk)
	must(t, s.Truncate(20))
	r, err := s.Recover(newModel)
	if err != nil || r.Last != 20 || r.Snapshot.Zxid != 20 {
		t.Fatalf("%+v, %v", r, err)
	}
	must(t, r.Target.(*model).holds(zxids(1, 25), 20))
	must(t, s.Close())
	s = open(t, disk)
	if err := s.Truncate(19); !errors.Is(err, ErrNeedSnapshot) {
		t.Errorf("below it: %v", err)
	}
	must(t, s.Close())
}

// The snapshot may end after the cut, and be readable again at the next start.
func TestNothingIsCutBesideASnapshotThatCannotBeRead(t *testing.T) {
	disk, broken := directory(t), errors.New("input/output error")
	s := open(t, disk)
	writeFuzzy(t, s)
	must(t, s.Close())
	s = open(t, &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if op.Kind == vfs.KindRead && filepath.Base(op.Name) == "snapshot.16" {
			return broken
		}
		return nil
	}})
	if err := s.Truncate(23); !errors.Is(err, broken) {
		t.Error(err)
	}
	must(t, s.Close())
	if r, err := open(t, disk).Recover(newModel); err != nil || r.Last != 25 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A start that has a later snapshot does not read the log before it. If the log is damaged
// there, nothing is truncated, and the leader's state replaces everything.
func TestNothingIsTruncatedAfterDamageInTheLog(t *testing.T) {
	for _, last := range []zk.Zxid{10, 12} {
		disk := directory(t)
		damage(t, disk, "logs/version-2/log.1", 60)
		s := open(t, disk)
		_, err := s.Recover(newModel)
		must(t, err)
		if err := s.Truncate(last); !errors.Is(err, ErrNeedSnapshot) {
			t.Errorf("to %s: %v", last, err)
		}
		must(t, s.Close())
		if r, err := open(t, disk).Recover(newModel); err != nil || r.Last != 25 {
			t.Errorf("to %s: %+v %v", last, r, err)
		}
	}
}

// What was verified about a snapshot does not hold for another one with the same name and
// length.
func TestSnapshotThatWasWrittenAgainIsReadAgain(t *testing.T) {
	disk := directory(t)
	s := open(t, disk)
	must(t, writeSnapshot(s, 22, zxids(1, 22)))
	_, err := s.Recover(newModel) // reads the snapshot
	must(t, err)
	w, err := s.NewSnapshot(22)
	must(t, err)
	must(t, w.Begin(0, 0))
	must(t, w.Node("", nil, -1, &zk.StatPersisted{}))
	for _, z := range append(zxids(1, 21), 24) {
		must(t, w.Node(fmt.Sprintf("/%x", int64(z)), make([]byte, 100), -1, &zk.StatPersisted{}))
	}
	must(t, w.End(24, zk.Digest{Version: 2}, 24))
	must(t, w.Commit())
	must(t, s.Truncate(23))
	r, err := s.Recover(newModel)
	if err != nil || r.Last != 23 || r.Snapshot.Zxid != 20 {
		t.Fatalf("history ends at %s, from snapshot %q, %v", r.Last, r.Snapshot.Name, err)
	}
	must(t, r.Target.(*model).holds(zxids(1, 25), 23))
	must(t, s.Close())
}

// A snapshot of 22 that was written until 24 may contain what is truncated: it is removed too, and
// the snapshot of 20 is used.
func TestSnapshotThatEndsAfterTheCutGoes(t *testing.T) {
	disk := directory(t)
	s := open(t, disk)
	writeFuzzy(t, s)
	must(t, s.Truncate(23))
	r, err := s.Recover(newModel)
	must(t, err)
	if r.Last != 23 || r.Snapshot.Zxid != 20 {
		t.Errorf("history ends at %s, from snapshot %s", r.Last, r.Snapshot.Name)
	}
	must(t, s.Close())
}

func TestPurgeCountsWholeSnapshotsOnly(t *testing.T) {
	list := func(disk *vfs.Mem) string {
		snapshots, _ := disk.List("data/version-2")
		logs, _ := disk.List("logs/version-2")
		return strings.Join(slices.DeleteFunc(append(snapshots, logs...), func(name string) bool {
			return name == logAtName || name == logIDName
		}), " ")
	}
	for _, c := range []struct {
		keep    int
		damaged string
		want    string
	}{
		{3, "", "snapshot.0 snapshot.14 snapshot.a log.1 log.15 log.b"},
		{2, "", "snapshot.14 snapshot.a log.1 log.15 log.b"},
		{1, "", "snapshot.14 log.15 log.b"},
		{0, "", "snapshot.14 log.15 log.b"},
		{1, "snapshot.14", "snapshot.14 snapshot.a log.1 log.15 log.b"},
		{2, "snapshot.14", "snapshot.0 snapshot.14 snapshot.a log.1 log.15 log.b"},
		{3, "snapshot.a", "snapshot.0 snapshot.14 snapshot.a log.1 log.15 log.b"},
	} {
		disk := directory(t)
		if c.damaged != "" {
			damage(t, disk, "data/version-2/"+c.damaged, 700)
		}
		s := open(t, disk)
		_, err := s.Purge(c.keep)
		must(t, err)
		if got := list(disk); got != c.want+" synced" {
			t.Errorf("keep %d, %q damaged:\n%s, want\n%s synced", c.keep, c.damaged, got, c.want)
		}
		must(t, s.Close())
		if r, err := open(t, disk).Recover(newModel); err != nil || r.Last != 25 {
			t.Errorf("keep %d, %q damaged: %+v %v", c.keep, c.damaged, r, err)
		}
	}
}
