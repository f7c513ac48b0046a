package datadir

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// rejoining is the directory of a server that has lost its disk and has begun to get its
// history back.
func rejoining(t *testing.T) (*vfs.Mem, *Store) {
	t.Helper()
	disk := vfs.NewMem()
	s, err := Open(disk, Options{DataDir: "data", NoCreateDB: true})
	must(t, err)
	r, err := s.Recover(newModel)
	if err != nil || r.Last != -1 {
		t.Fatalf("%+v %v", r, err)
	}
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

// If a server votes with the part of its history that had arrived when it lost power, it
// forgets what it had acknowledged before its disk was lost.
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

// A backup that is restored over the mark is no part of what has arrived: its epochs were never
// promised here. It is refused, and nothing in it is changed.
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

// A disk has not kept what it had reported as durable. What is missing was acknowledged, and a
// server that voted with what is left would elect a leader that never saw it. The start may end
// anywhere, even while it notes this.
func TestServerWhoseLogLacksItsEndMayNotVoteBeforeItsHistoryIsWhole(t *testing.T) {
	shortened := func() *vfs.Mem {
		disk := directory(t)
		f, err := disk.OpenReadWrite("logs/version-2/log.15")
		must(t, err)
		must(t, f.Truncate(100))
		must(t, f.Sync())
		must(t, f.Close())
		noted, err := disk.OpenReadWrite("logs/version-2/" + txnlog.MarkName)
		must(t, err)
		must(t, noted.Sync()) // the operating system has written it since
		must(t, noted.Close())
		must(t, disk.SyncDir("logs/version-2"))
		return disk
	}
	for ops, whole := 0, false; !whole; ops++ {
		disk, left := shortened(), ops
		s, err := Open(&vfs.Faulty{Disk: disk, Before: func(vfs.Op) error {
			if left--; left < 0 {
				return errors.New("the machine has lost power")
			}
			return nil
		}}, Options{DataDir: "data", LogDir: "logs"})
		if err == nil {
			_, err = s.Recover(newModel)
		}
		whole = err == nil
		for name, end := range map[string]*vfs.Mem{"power": disk.CrashClone(0, 1), "process": disk.KillClone()} {
			next := open(t, end)
			r, err := next.Recover(newModel)
			must(t, err)
			if !r.Rejoining || r.Last >= 25 {
				t.Fatalf("%s lost after %d operations of the start: votes, with what ends at %v", name, ops, r.Last)
			}
		}
	}

	disk := shortened()
	s := open(t, disk)
	r, err := s.Recover(newModel)
	must(t, err)
	_, err = s.LoadEpochs(r.Last)
	must(t, err)
	must(t, s.SetAccepted(1))
	must(t, s.SetCurrent(1)) // everything has come from a leader
	if r, err := open(t, disk.CrashClone(0, 1)).Recover(newModel); err != nil || r.Rejoining || r.Lost != nil {
		t.Errorf("no vote although everything has come: %+v %v", r, err)
	}

	s, err = Open(shortened(), Options{DataDir: "data", LogDir: "logs", Alone: true})
	must(t, err)
	if r, err := s.Recover(newModel); err != nil || r.Rejoining || r.Lost == nil {
		t.Errorf("a server of no ensemble, which nobody can send anything: %+v %v", r, err)
	}
}

// The directory of the log is restored from an older copy, that of the snapshots is not.
// Everything that the log had up to the newest snapshot is in that snapshot, and what came
// after it is gone. Without a mark, as ZooKeeper's own servers leave a log, a snapshot may be a
// leader's state.
func TestLogOfAnOlderCopyHasLostItsEnd(t *testing.T) {
	const logs = "logs/version-2"
	older := vfs.NewMem()
	s := open(t, older)
	_, err := s.Recover(newModel)
	must(t, err)
	must(t, writeSnapshot(s, 0, nil))
	log, err := s.OpenLog(0)
	must(t, err)
	must(t, appendAll(log, zxids(1, 10)...))
	must(t, log.Close())
	must(t, s.Close())
	for _, c := range []struct {
		name            string
		options         Options
		without         string // a file that is not restored
		epoch           string // the content of the epoch files, "" for none
		lost, rejoining bool
	}{
		{name: "of an ensemble", lost: true, rejoining: true},
		{name: "alone", options: Options{Alone: true}, lost: true},
		{name: "nothing is synced", options: Options{Log: txnlog.Options{NoSync: true}}},
		{name: "of ZooKeeper", without: txnlog.MarkName},
		{name: "ZooKeeper's server has run since", epoch: "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := directory(t)
			names, err := disk.List(logs)
			must(t, err)
			for _, name := range names {
				must(t, disk.Remove(logs+"/"+name))
			}
			names, err = older.List(logs)
			must(t, err)
			for _, name := range names {
				content, err := vfs.ReadFile(older, logs+"/"+name, 1<<20)
				must(t, err)
				if name != c.without {
					must(t, vfs.ReplaceFile(disk, logs+"/"+name, logs+"/t", content))
				}
			}
			for _, name := range []string{acceptedName, currentName} {
				if c.epoch != "" {
					must(t, vfs.ReplaceFile(disk, "data/version-2/"+name, "data/version-2/t", []byte(c.epoch)))
				}
			}
			c.options.DataDir, c.options.LogDir = "data", "logs"
			report, err := Check(disk, c.options, newModel)
			must(t, err)
			if report.Lost() != c.lost || report.Sound() == c.lost || report.Refusal != "" {
				t.Errorf("check: %+v", report)
			}
			s, err := Open(disk, c.options)
			must(t, err)
			r, err := s.Recover(newModel)
			must(t, err)
			if (r.Lost != nil) != c.lost || r.Rejoining != c.rejoining || r.Last != 20 {
				t.Errorf("%+v, %v", r, r.Lost)
			}
			must(t, s.Close())
			s, err = Open(disk, c.options)
			must(t, err)
			r, err = s.Recover(newModel)
			must(t, err)
			if r.Lost != nil || r.Rejoining != c.rejoining {
				t.Errorf("at the second start, without a record in between: %+v, %v", r, r.Lost)
			}
			_, err = s.LoadEpochs(r.Last)
			must(t, err)
			must(t, s.SetAccepted(1))
			must(t, s.SetCurrent(1)) // a leader has nothing that is missing here
			must(t, s.Close())
			s, err = Open(disk, c.options)
			must(t, err)
			if r, err := s.Recover(newModel); err != nil || r.Lost != nil || r.Rejoining {
				t.Errorf("no vote although a leader has said that this is all: %+v %v", r, err)
			}
			must(t, s.Close())
		})
	}
}
