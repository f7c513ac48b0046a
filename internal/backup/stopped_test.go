package backup_test

import (
	"testing"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// ZooKeeper before 3.6 writes no digest: everything in a snapshot of a stopped server is from
// before the end of its log.
func TestOldSnapshotOfAStoppedServerIsRestored(t *testing.T) {
	w := newWritten(t)
	w.create(1, 20)
	w.snapshot()
	name := w.store.SnapDir() + "/snapshot.14"
	content, err := vfs.ReadFile(w.disk, name, 1<<20)
	w.must(err)
	const tail = 54 // digest and last zxid
	w.must(vfs.ReplaceFile(w.disk, name, name+".tmp", content[:len(content)-tail]))
	w.must(w.disk.Remove(w.store.SnapDir() + "/snapshot.0"))
	w.create(21, 25)
	disk := vfs.NewMem()
	place := backup.OpenDir(disk, "/")
	w.take(place, backup.AllCommitted, backup.Options{})
	restores(t, place, 25)
	b := open(t, place)
	state, err := b.Load(t.Context(), backup.Moment{})
	w.must(err)
	into := vfs.NewMem()
	begins, err := b.Restore(into, datadir.Options{DataDir: "/restored"}, state)
	if err != nil || begins <= 25 {
		t.Fatalf("what is restored begins at %s, %v", begins, err)
	}
	restored, err := replicadisk.Open(into, replicadisk.Options{Store: datadir.Options{DataDir: "/restored"}, ExtendedTypes: true})
	w.must(err)
	defer restored.Close()
	if found, err := restored.Recover(); err != nil || found.State.Tree().Count() != state.Tree().Count() {
		t.Errorf("the restored server: %v", err)
	}
}

// An epoch above everything that a backup has seen must fit into a zxid.
func TestRestoreRefusesEpochsThatDoNotFit(t *testing.T) {
	w := newWritten(t)
	w.become(zk.MakeZxid(1<<31-50, 7))
	w.create(zk.MakeZxid(1<<31-50, 8), zk.MakeZxid(1<<31-50, 9))
	place := backup.OpenDir(vfs.NewMem(), "/")
	w.take(place, zk.MakeZxid(1<<31-50, 9), backup.Options{})
	b := open(t, place)
	state, err := b.Load(t.Context(), backup.Moment{})
	w.must(err)
	if zxid, err := b.Restore(vfs.NewMem(), datadir.Options{DataDir: "/restored"}, state); err == nil {
		t.Errorf("restored at %s", zxid)
	}
}

// An ensemble in trouble may have elected leaders every few seconds since the last take. What
// is restored is above all of those epochs, and a server that was forgotten in the restore is
// not elected.
func TestWhatIsRestoredIsAboveThousandsOfElections(t *testing.T) {
	w := newWritten(t)
	w.create(one(1), one(3))
	place := backup.OpenDir(vfs.NewMem(), "/")
	w.take(place, one(3), backup.Options{})
	b := open(t, place)
	state, err := b.Load(t.Context(), backup.Moment{})
	w.must(err)
	const elections = 24 * 60 * 60 / 3 // per day
	begins, err := b.Restore(vfs.NewMem(), datadir.Options{DataDir: "/restored"}, state)
	if err != nil || begins.Epoch() <= 1+elections {
		t.Errorf("what is restored begins at %s, %v", begins, err)
	}
}
