package datadir

import (
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// rejoining is a directory of a server that has lost its disk and has begun to
// get its history again.
func rejoining(t *testing.T) (*vfs.Mem, *Store) {
	t.Helper()
	disk := vfs.NewMem()
	s, err := Open(disk, Options{DataDir: "data", NoCreateDB: true})
	must(t, err)
	r, err := s.Recover(newModel)
	if err != nil || r.Last != -1 {
		t.Fatalf("%+v %v", r, err)
	}
	must(t, s.BeginRejoining())
	_, err = s.LoadEpochs(0)
	must(t, err)
	must(t, s.SetAccepted(5))
	w, err := s.NewSnapshot(0)
	must(t, err)
	w.Begin(0, 0)
	w.End(0, zk.Digest{}, 0)
	must(t, w.Commit())
	log, err := s.OpenLog(0)
	must(t, err)
	for zxid := zk.MakeZxid(1, 1); zxid < zk.MakeZxid(1, 4); zxid++ {
		h := zk.TxnHeader{Zxid: zxid, Op: zk.OpError}
		must(t, log.Append(zxid, txn.Append(nil, &h, &zk.Txn{Op: zk.OpError}, zk.Digest{})))
	}
	must(t, log.Close())
	return disk, s
}

func recoverAgain(t *testing.T, disk *vfs.Mem) (*Store, *Recovered) {
	t.Helper()
	s, err := Open(disk.CrashClone(0, 1), Options{DataDir: "data", NoCreateDB: true})
	must(t, err)
	r, err := s.Recover(newModel)
	must(t, err)
	return s, r
}

// A server that votes with the part of its history that had come when it lost
// power would forget what it had acknowledged before its disk was lost.
func TestServerThatLostItsDiskMayNotVoteBeforeItsHistoryIsWhole(t *testing.T) {
	disk, _ := rejoining(t)
	s, r := recoverAgain(t, disk)
	if !r.Rejoining || r.Last != zk.MakeZxid(1, 3) {
		t.Errorf("a part of a history is trusted, or gone: %+v", r)
	}
	if epochs, err := s.LoadEpochs(r.Last); err != nil || epochs.Accepted != 5 {
		t.Errorf("the promise is lost: %+v %v", epochs, err)
	}
}

func TestServerWhoseHistoryHasComeMayVoteAgain(t *testing.T) {
	disk, s := rejoining(t)
	must(t, s.SetCurrent(5))
	if _, r := recoverAgain(t, disk); r.Last != zk.MakeZxid(1, 3) || r.Rejoining {
		t.Errorf("%+v", r)
	}
}

func TestTheMarkOfABeginningEndsTheRejoining(t *testing.T) {
	disk, s := rejoining(t)
	must(t, s.Close())
	f, err := disk.Create("data/initialize")
	must(t, err)
	must(t, f.Sync())
	must(t, disk.SyncDir("data"))
	next, r := recoverAgain(t, disk)
	if r.Rejoining {
		t.Fatalf("%+v", r)
	}
	for _, name := range []string{"data/version-2/" + rejoiningName, "data/initialize"} {
		if found, _ := vfs.Exists(next.fs, name); found {
			t.Errorf("%s is still there: it begins a history and waits for one", name)
		}
	}
}

// A backup that is put back over the mark is no part of what has come: its epochs
// were never promised here. It is refused, and nothing of it is touched.
func TestABackupThatIsPutBackIsNotDeleted(t *testing.T) {
	disk, s := rejoining(t)
	must(t, s.Close())
	put, err := Open(disk, Options{DataDir: "data"})
	must(t, err)
	last := zk.MakeZxid(7, 7)
	w, err := put.NewSnapshot(last)
	must(t, err)
	w.Begin(0, 0)
	w.End(last, zk.Digest{}, 0)
	must(t, w.Commit())
	must(t, put.Close())

	next, r := recoverAgain(t, disk)
	if r.Last != last || !r.Rejoining {
		t.Errorf("the backup is gone, or trusted: %+v", r)
	}
	_, err = next.LoadEpochs(r.Last)
	if err == nil || !strings.Contains(err.Error(), next.RejoiningText()) {
		t.Errorf("loads epochs: %v", err)
	}
	must(t, next.Close())
	report, err := Check(next.fs, next.options, nil)
	must(t, err)
	if !strings.Contains(report.Refusal, next.RejoiningText()) || !slices.Contains(report.Notes, next.RejoiningText()) {
		t.Errorf("check says %q, %q", report.Refusal, report.Notes)
	}
}
