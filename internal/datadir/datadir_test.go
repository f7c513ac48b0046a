package datadir

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// model is a state that knows every transaction that it has: the znodes of its snapshots are
// named after them.
type model struct {
	snap.Discard
	zxids map[zk.Zxid]bool
}

func newModel() Target { return &model{zxids: map[zk.Zxid]bool{}} }

func (m *model) Node(path string, _ []byte, _ int64, _ zk.StatPersisted) error {
	if path == "" {
		return nil
	}
	var zxid zk.Zxid
	_, err := fmt.Sscanf(path, "/%x", &zxid)
	m.zxids[zxid] = true
	return err
}

func (m *model) Replay(zxid zk.Zxid, payload []byte) error {
	h, _, _, err := txn.Decode(payload)
	if err == nil && h.Zxid != zxid {
		err = errors.New("zxid differs")
	}
	m.zxids[zxid] = true
	return err
}

// holds reports whether the model is the whole history up to last.
func (m *model) holds(history []zk.Zxid, last zk.Zxid) error {
	count := 0
	for _, zxid := range history {
		if zxid > last {
			break
		}
		if !m.zxids[zxid] {
			return fmt.Errorf("%s is missing below %s", zxid, last)
		}
		count++
	}
	if count != len(m.zxids) {
		return fmt.Errorf("%d transactions, want %d", len(m.zxids), count)
	}
	return nil
}

func payload(zxid zk.Zxid) []byte {
	t := zk.Txn{Op: zk.OpSetData, Path: "/a", Data: make([]byte, int(zxid)*41%700), Version: 1}
	return txn.Append(nil, &zk.TxnHeader{Session: 1, Zxid: zxid, Op: t.Op}, &t, zk.Digest{})
}

// writeSnapshot writes the history up to zxid.
func writeSnapshot(s *Store, zxid zk.Zxid, history []zk.Zxid) error {
	w, err := s.NewSnapshot(zxid)
	if err != nil {
		return err
	}
	return fill(w, zxid, history)
}

// fill writes the content of such a snapshot, and gives it its name.
func fill(w *SnapshotWriter, zxid zk.Zxid, history []zk.Zxid) error {
	_ = w.Begin(0, 0)
	_ = w.Node("", nil, -1, &zk.StatPersisted{})
	for _, z := range history {
		if z <= zxid {
			_ = w.Node(fmt.Sprintf("/%x", int64(z)), make([]byte, 100), -1, &zk.StatPersisted{})
		}
	}
	_ = w.End(zxid, zk.Digest{Version: 2}, zxid)
	return w.Commit()
}

func appendAll(log *txnlog.Log, zxids ...zk.Zxid) error {
	for _, zxid := range zxids {
		if err := log.Append(zxid, payload(zxid)); err != nil {
			return err
		}
	}
	return log.Sync()
}

func zxids(first, last zk.Zxid) []zk.Zxid {
	var all []zk.Zxid
	for zxid := first; zxid <= last; zxid++ {
		all = append(all, zxid)
	}
	return all
}

func open(t testing.TB, disk vfs.FS) *Store {
	t.Helper()
	s, err := Open(disk, Options{DataDir: "data", LogDir: "logs", Number: numbers(), Log: txnlog.Options{PreallocBytes: 4096},
		Beside: func(f func()) { go f() }})
	must(t, err)
	return s
}

// directory makes a directory with snapshots at 0, 10 and 20 and a log from 1 to 25 in segments
// from 1, 11 and 21.
func directory(t testing.TB) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	s := open(t, disk)
	r, err := s.Recover(newModel)
	must(t, err)
	if !r.Fresh || r.Last != 0 {
		t.Fatalf("an empty directory: %+v", r)
	}
	if _, err := s.OpenLog(0); err == nil {
		t.Fatal("a log without the first snapshot would be refused at the next start")
	}
	must(t, writeSnapshot(s, 0, nil))
	log, err := s.OpenLog(0)
	must(t, err)
	must(t, appendAll(log, zxids(1, 10)...))
	must(t, writeSnapshot(s, 10, zxids(1, 10)))
	log.Roll()
	must(t, appendAll(log, zxids(11, 20)...))
	must(t, writeSnapshot(s, 20, zxids(1, 20)))
	log.Roll()
	must(t, appendAll(log, zxids(21, 25)...))
	must(t, log.Close())
	must(t, s.Close())
	return disk
}

func damage(t testing.TB, disk *vfs.Mem, name string, offset int64) {
	t.Helper()
	must(t, disk.FlipByte(name, offset, 0xff))
}

func TestRecoveryGivesSnapshotAndLog(t *testing.T) {
	s := open(t, directory(t).CrashClone(0, 1))
	r, err := s.Recover(newModel)
	must(t, err)
	if r.Last != 25 || r.Snapshot.Zxid != 20 || r.Records != 5 || r.Torn != nil || len(r.Rejected) != 0 {
		t.Errorf("%+v", r)
	}
	must(t, r.Target.(*model).holds(zxids(1, 25), 25))
}

// ZooKeeper does not sync most of its snapshots, nor the directory.
func TestSnapshotOfAnotherServerIsDurableOnceItWasRecovered(t *testing.T) {
	disk := vfs.NewMem()
	must(t, open(t, disk).Close())
	content, err := vfs.ReadFile(directory(t), "data/version-2/snapshot.14", 1<<20)
	must(t, err)
	f, err := disk.Create("data/version-2/snapshot.14")
	must(t, err)
	_, err = f.Write(content)
	must(t, err)
	must(t, f.Close())
	_, err = open(t, disk).Recover(newModel)
	must(t, err)
	if r, err := open(t, disk.CrashClone(0, 1)).Recover(newModel); err != nil || r.Last != 20 {
		t.Errorf("after a power loss: %+v %v", r, err)
	}
}

func TestDamagedSnapshotIsIgnoredWithAFreshTarget(t *testing.T) {
	disk := directory(t)
	damage(t, disk, "data/version-2/snapshot.14", 2500)
	targets := 0
	s := open(t, disk)
	r, err := s.Recover(func() Target { targets++; return newModel() })
	must(t, err)
	if r.Snapshot.Zxid != 10 || r.Last != 25 || len(r.Rejected) != 1 || targets != 2 {
		t.Errorf("%+v, %d targets", r, targets)
	}
	must(t, r.Target.(*model).holds(zxids(1, 25), 25))
}

// A snapshot that the disk cannot read now may be readable at the next start: what an older one
// yields in the meantime may be another history.
func TestSnapshotThatCannotBeReadIsNotIgnored(t *testing.T) {
	broken := errors.New("input/output error")
	for _, kind := range []vfs.Kind{vfs.KindOpen, vfs.KindRead} {
		s := open(t, &vfs.Faulty{Disk: directory(t), Before: func(op vfs.Op) error {
			if op.Kind == kind && filepath.Base(op.Name) == "snapshot.14" {
				return broken
			}
			return nil
		}})
		if _, err := s.Recover(newModel); !errors.Is(err, broken) || !strings.Contains(err.Error(), "snapshot.14") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// The newest snapshot explained a gap in the log, as after a synchronization by SNAP. Without
// it the replay must not continue after the gap.
func TestFallingBackOverAGapIsRefused(t *testing.T) {
	disk := directory(t)
	must(t, disk.Remove("logs/version-2/log.b"))
	s := open(t, disk)
	_, err := s.Recover(newModel)
	must(t, err)
	must(t, s.Close())
	damage(t, disk, "data/version-2/snapshot.14", 2500)
	s = open(t, disk)
	if _, err := s.Recover(newModel); !vfs.IsCorruption(err) || !strings.Contains(err.Error(), "log.15") {
		t.Errorf("%v", err)
	}
}

// A ZooKeeper server that was sent a leader's state keeps its earlier log: that ends in one
// epoch, the state belongs to another, and the following transactions to a third. A learner
// must not be given both logs as one history, and neither must a start without the snapshot.
func TestGapBetweenEpochsIsNoHistory(t *testing.T) {
	first, second, third := zk.MakeZxid(1, 1), zk.MakeZxid(2, 7), zk.MakeZxid(3, 1)
	disk := vfs.NewMem()
	s := open(t, disk)
	_, err := s.Recover(newModel)
	must(t, err)
	must(t, writeSnapshot(s, 0, nil))
	log, err := s.OpenLog(0)
	must(t, err)
	must(t, appendAll(log, zxids(first, first+3)...))
	must(t, log.Close())
	history := append(zxids(first, first+3), zxids(second-6, second)...)
	must(t, writeSnapshot(s, second, history))
	log, err = s.OpenLog(second)
	must(t, err)
	must(t, appendAll(log, zxids(third, third+2)...))
	must(t, log.Close())
	must(t, s.Close())
	f, err := disk.OpenReadWrite("logs/version-2/" + txnlog.SegmentName(third))
	must(t, err)
	_, err = f.WriteAt(make([]byte, 8), 8) // ZooKeeper's head does not record what comes before
	must(t, errors.Join(err, f.Close()))

	s = open(t, disk)
	r, err := s.Recover(newModel)
	must(t, err)
	must(t, r.Target.(*model).holds(append(history, zxids(third, third+2)...), third+2))
	for after, want := range map[zk.Zxid]bool{first: false, first + 3: false, second: true, third: true} {
		reader, err := s.ReadLog(after)
		must(t, err)
		for err == nil {
			_, err = reader.Next()
		}
		if (err == io.EOF) != want || !want && !strings.Contains(err.Error(), "transactions are missing") {
			t.Errorf("after %s: %v", after, err)
		}
		_ = reader.Close()
	}
	must(t, s.Close())
	damage(t, disk, "data/version-2/snapshot.200000007", 200)
	if _, err := open(t, disk).Recover(newModel); !vfs.IsCorruption(err) {
		t.Errorf("a start without it: %v", err)
	}
}

func TestNothingLoadableIsRefusedNotEmptied(t *testing.T) {
	for name, ruin := range map[string]func(*vfs.Mem){
		"all snapshots damaged": func(disk *vfs.Mem) {
			for _, name := range []string{"snapshot.0", "snapshot.a", "snapshot.14"} {
				damage(t, disk, "data/version-2/"+name, 20)
			}
		},
		"snapshots gone": func(disk *vfs.Mem) {
			for _, name := range []string{"snapshot.0", "snapshot.a", "snapshot.14"} {
				must(t, disk.Remove("data/version-2/"+name))
			}
		},
	} {
		disk := directory(t)
		ruin(disk)
		if _, err := open(t, disk).Recover(newModel); !errors.Is(err, ErrNoHistory) {
			t.Errorf("%s: %v", name, err)
		}
	}
	disk := vfs.NewMem()
	s := open(t, disk)
	f, err := disk.Create("data/version-2/snapshot.5")
	must(t, err)
	must(t, f.Close())
	if _, err := s.Recover(newModel); !errors.Is(err, ErrNoHistory) {
		t.Errorf("an empty snapshot file alone: %v", err)
	}
}

func TestLogAloneIsTrustedOnRequest(t *testing.T) {
	disk := directory(t)
	for _, name := range []string{"snapshot.0", "snapshot.a", "snapshot.14"} {
		must(t, disk.Remove("data/version-2/"+name))
	}
	s, err := Open(disk, Options{DataDir: "data", LogDir: "logs", TrustEmpty: true})
	must(t, err)
	r, err := s.Recover(newModel)
	must(t, err)
	if !r.NeedsSnapshot || r.Last != 25 || r.Fresh {
		t.Errorf("%+v", r)
	}
	_, err = s.OpenLog(r.Last)
	must(t, err)
}

func TestServerThatLostItsDiskMayNotVote(t *testing.T) {
	disk := vfs.NewMem()
	options := Options{DataDir: "data", LogDir: "logs", NoCreateDB: true}
	s, err := Open(disk, options)
	must(t, err)
	r, err := s.Recover(newModel)
	if err != nil || r.Last != -1 || r.Fresh {
		t.Fatalf("%+v %v", r, err)
	}
	must(t, s.Close())
	f, err := disk.Create("logs/initialize")
	must(t, err)
	must(t, f.Close())
	s, err = Open(disk, options)
	must(t, err)
	r, err = s.Recover(newModel)
	if err != nil || r.Last != 0 || !r.Fresh {
		t.Fatalf("with the mark: %+v %v", r, err)
	}
	if found, _ := vfs.Exists(disk.CrashClone(0, 1), "logs/initialize"); found {
		t.Error("the mark counts twice")
	}
}

// The file "initialize" next to a history: scripts create it on every machine. It must be gone
// when the disk is lost.
func TestLeaveToBeginIsForOneStart(t *testing.T) {
	disk := directory(t)
	f, err := disk.Create("logs/initialize")
	must(t, err)
	must(t, errors.Join(f.Close(), disk.SyncDir("logs")))
	options := Options{DataDir: "data", LogDir: "logs", NoCreateDB: true}
	if r, err := recovered(disk, options); err != nil || r.Last != 25 {
		t.Fatalf("%+v %v", r, err)
	}
	disk = disk.CrashClone(0, 1)
	for _, dir := range []string{dataVersion, logsVersion} {
		names, err := disk.List(dir)
		must(t, err)
		for _, name := range names {
			must(t, disk.Remove(filepath.Join(dir, name)))
		}
	}
	if r, err := recovered(disk, options); err != nil || r.Last >= 0 {
		t.Errorf("a server that has lost its disk may vote: %+v %v", r, err)
	}
}

func TestDirectoriesAreCheckedAndLocked(t *testing.T) {
	disk := directory(t)
	if _, err := Open(disk, Options{DataDir: "logs", LogDir: "data"}); err == nil || !strings.Contains(err.Error(), "swap dataDir and dataLogDir") {
		t.Errorf("exchanged directories: %v", err)
	}
	if _, err := Open(disk, Options{DataDir: "other", NoCreateDirs: true}); err == nil {
		t.Error("a missing directory was created against the configuration")
	}
	s := open(t, disk)
	if _, err := Open(disk, Options{DataDir: "data", LogDir: "logs"}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second server: %v", err)
	}
	must(t, s.Close())
	must(t, open(t, disk).Close())
	logs, err := disk.Lock(s.LogDir()) // under its other name
	must(t, err)
	if _, err := Open(disk, Options{DataDir: "data", LogDir: "logs"}); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "leave out dataLogDir") {
		t.Errorf("one directory with two names: %v", err)
	}
	must(t, logs.Close())
}

func TestMyID(t *testing.T) {
	disk := vfs.NewMem()
	if _, found, err := MyID(disk, "."); found || err != nil {
		t.Errorf("missing: %v %v", found, err)
	}
	must(t, vfs.ReplaceFile(disk, "myid", "t", []byte(" 7\n")))
	if id, found, err := MyID(disk, "."); id != 7 || !found || err != nil {
		t.Errorf("%d %v %v", id, found, err)
	}
	must(t, vfs.ReplaceFile(disk, "myid", "t", []byte("seven")))
	if _, _, err := MyID(disk, "."); err == nil {
		t.Error("no number was accepted")
	}
}

func TestCheckTellsWhatAStartWouldDoAndChangesNothing(t *testing.T) {
	check := func(disk *vfs.Mem) *Report {
		t.Helper()
		readOnly := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			if op.Changes() || op.Kind == vfs.KindLock {
				t.Errorf("check does %s", op)
			}
			return nil
		}}
		r, err := Check(readOnly, Options{DataDir: "data", LogDir: "logs"}, newModel)
		must(t, err)
		return r
	}
	r := check(directory(t))
	if !r.Sound() || r.Base != "snapshot.14" || r.Last != 25 || r.Records != 5 || len(r.Snapshots) != 3 || len(r.Segments) != 3 ||
		r.Segments[1] != (SegmentReport{Name: "log.b", Bytes: r.Segments[1].Bytes, First: 11, Last: 20, Records: 10}) {
		t.Errorf("%+v", r)
	}
	disk := directory(t)
	damage(t, disk, "logs/version-2/log.b", 200)
	damage(t, disk, "data/version-2/snapshot.14", 100)
	r = check(disk)
	if r.Sound() || len(r.Problems) != 3 || !strings.Contains(strings.Join(r.Problems, "\n"), "log.b is damaged at offset") {
		t.Errorf("%q", r.Problems)
	}
	disk = directory(t)
	f, err := disk.OpenReadWrite(filepath.Join("logs/version-2/log.15"))
	must(t, err)
	size, _ := f.Size()
	must(t, f.Truncate(size-5))
	must(t, disk.Remove(filepath.Join("logs/version-2", txnlog.MarkName))) // the record was not synced
	r = check(disk)
	if !r.Sound() || r.Last != 24 || r.Segments[2].Torn == "" {
		t.Errorf("%+v", r)
	}
	r = check(func() *vfs.Mem { d := vfs.NewMem(); must(t, open(t, d).Close()); return d }())
	if !r.Sound() || !r.Fresh || r.Last != 0 {
		t.Errorf("empty: %+v", r)
	}
}

// A start ignores what it does not need, and check must report that it would.
func TestCheckSaysWhatAStartWouldDoWithDamage(t *testing.T) {
	for file, base := range map[string]string{
		"data/version-2/snapshot.14": "snapshot.a", "logs/version-2/log.1": "snapshot.14", "logs/version-2/log.15": "",
	} {
		disk := directory(t)
		must(t, disk.FlipByte(file, 60, 1))
		report, err := Check(disk, Options{DataDir: "data", LogDir: "logs"}, newModel)
		must(t, err)
		if (report.Refusal == "") != (base != "") || report.Base != base || len(report.Problems) != 1 {
			t.Errorf("%s: %+v", file, report)
		}
		s := open(t, disk)
		if r, err := s.Recover(newModel); (err == nil) != (base != "") || err == nil && (r.Snapshot.Name != base || r.Last != report.Last) {
			t.Errorf("%s: a start: %+v, %v", file, r, err)
		}
		must(t, s.Close())
	}
}

// A znode that is longer than may be read is not damaged, and no reason to load an older
// snapshot either.
func TestSnapshotOfLongerZnodesIsNotDamaged(t *testing.T) {
	disk := directory(t)
	s := open(t, disk)
	s.options.BufferBytesMax = 50 // the znodes have 100
	_, err := s.Recover(newModel)
	var long *vfs.TooLong
	if !errors.As(err, &long) || long.Bytes != 100 || long.Limit != 50 || vfs.IsCorruption(err) {
		t.Errorf("%v", err)
	}
	must(t, s.Close())
	report, err := Check(disk, Options{DataDir: "data", LogDir: "logs", BufferBytesMax: 50}, newModel)
	must(t, err)
	if !report.TooLong || report.Refusal == "" || !report.Snapshots[0].TooLong {
		t.Errorf("%+v", report)
	}
	must(t, disk.FlipByte("data/version-2/snapshot.14", 200, 1))
	report, err = Check(disk, Options{DataDir: "data", LogDir: "logs", BufferBytesMax: 50}, newModel)
	must(t, err)
	if report.Snapshots[0].TooLong || !strings.Contains(report.Snapshots[0].Error, "damaged at") {
		t.Errorf("a damaged one: %+v", report.Snapshots[0])
	}
}

// Somebody has shortened or removed what was synced, or the disk has not kept it. That is
// reported, and a log that is gone completely does not count as an empty one.
func TestLogThatLacksWhatWasSyncedIsNotedOrRefused(t *testing.T) {
	const last = "logs/version-2/log.15"
	records := func(disk *vfs.Mem) (ends []int64) {
		reader := txnlog.NewSegmentReader(disk, "logs/version-2", txnlog.Segment{Name: "log.15", First: 0x15}, txnlog.ReadOptions{})
		defer reader.Close()
		for {
			record, err := reader.Next()
			if err != nil {
				return ends
			}
			ends = append(ends, record.Offset+int64(len(record.Payload))+13)
		}
	}
	cut := func(disk *vfs.Mem, at int64) {
		f, err := disk.OpenReadWrite(last)
		must(t, err)
		must(t, f.Truncate(at))
		must(t, f.Close())
	}
	for name, c := range map[string]struct {
		change     func(disk *vfs.Mem)
		lost, gone bool
	}{
		"nothing":            {func(*vfs.Mem) {}, false, false},
		"within a record":    {func(disk *vfs.Mem) { ends := records(disk); cut(disk, ends[len(ends)-1]-5) }, true, false},
		"the last record":    {func(disk *vfs.Mem) { ends := records(disk); cut(disk, ends[len(ends)-2]) }, true, false},
		"all records":        {func(disk *vfs.Mem) { cut(disk, 0) }, true, false},
		"the file":           {func(disk *vfs.Mem) { must(t, disk.Remove(last)) }, true, true},
		"all logs":           {func(disk *vfs.Mem) { must(t, disk.Remove(last)); must(t, disk.Remove("logs/version-2/log.b")) }, true, true},
		"the file, declared": {func(disk *vfs.Mem) { must(t, disk.Remove(last)); must(t, disk.Remove("logs/version-2/synced")) }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			disk := directory(t)
			c.change(disk)
			report, err := Check(disk, Options{DataDir: "data", LogDir: "logs"}, newModel)
			must(t, err)
			if report.Sound() == c.lost || (report.Refusal != "") != c.gone || strings.Contains(strings.Join(report.Notes, ""), "never acknowledged") {
				t.Errorf("check: %q, refused for %q, notes %q", report.Problems, report.Refusal, report.Notes)
			}
			s := open(t, disk)
			defer s.Close()
			r, err := s.Recover(newModel)
			if (err != nil) != c.gone || err == nil && (r.Lost != nil) != c.lost {
				t.Errorf("start: %v", err)
			}
		})
	}
}

// ZooKeeper's own server has truncated the log since, as its leader told it to, and left the mark: what
// that tells is lost was never committed. From the start on the mark is that of the log again.
func TestLogThatZooKeepersServerHasTruncatedLacksNothing(t *testing.T) {
	const logs, epochs = "logs/version-2/", "data/version-2/"
	shorten := func(disk *vfs.Mem) {
		segments, err := txnlog.Segments(disk, logs)
		must(t, err)
		f, err := disk.OpenReadWrite(logs + segments[len(segments)-1].Name)
		must(t, err)
		size, err := f.Size()
		must(t, err)
		must(t, f.Truncate(size-50)) // within a record
		must(t, f.Close())
	}
	for name, c := range map[string]struct {
		without []string
		tells   bool // whether there is something to be lost after that
	}{
		"the end of a file": {nil, true},
		"a file":            {[]string{"log.15"}, true},
		"to before":         {[]string{"log.15", "log.b"}, false},
		"all":               {[]string{"log.15", "log.b", "log.1"}, false},
	} {
		for _, others := range []string{acceptedName, currentName} {
			t.Run(name+", "+others, func(t *testing.T) {
				disk := directory(t)
				for _, epoch := range []string{acceptedName, currentName} {
					text := "1"
					if epoch != others {
						text += "\n" + epochCheck(1)
					}
					must(t, vfs.ReplaceFile(disk, epochs+epoch, epochs+"t", []byte(text)))
				}
				for _, segment := range c.without {
					must(t, disk.Remove(logs+segment))
				}
				if c.without == nil {
					shorten(disk)
				}
				report, err := Check(disk, Options{DataDir: "data", LogDir: "logs"}, newModel)
				if must(t, err); report.Lost() || !report.Sound() {
					t.Errorf("check: %+v", report)
				}
				for range 2 {
					s := open(t, disk)
					r, err := s.Recover(newModel)
					if err != nil || r.Lost != nil || r.Rejoining {
						t.Fatalf("start: %+v, %v", r, err)
					}
					must(t, s.Close())
				}
				if !c.tells {
					return
				}
				shorten(disk)
				s := open(t, disk)
				defer s.Close()
				if r, err := s.Recover(newModel); err != nil || r.Lost == nil {
					t.Errorf("what is lost after the start is not told of: %v", err)
				}
			})
		}
	}
}

// A history that begins in a directory from which everything was removed except the mark is not
// refused because of the mark, whether or not it is ever synced. Nor does it lack what the
// earlier log lacked.
func TestMarkOfARemovedLogIsGivenUpByABeginning(t *testing.T) {
	disk := directory(t)
	s := open(t, disk)
	must(t, s.NoteGap(24))
	must(t, s.NoteDiffers(24))
	must(t, s.Close())
	for _, name := range []string{"data/version-2/snapshot.0", "data/version-2/snapshot.a", "data/version-2/snapshot.14",
		"logs/version-2/log.1", "logs/version-2/log.b", "logs/version-2/log.15"} {
		must(t, disk.Remove(name))
	}
	for range 2 {
		s := open(t, disk)
		r, err := s.Recover(newModel)
		must(t, err)
		if !r.Fresh {
			t.Fatal("not a beginning")
		}
		if _, err := disk.Stat("logs/version-2/" + txnlog.MarkName); err == nil {
			t.Error("the mark is still there")
		}
		if gap, err := s.Gap(); gap != 0 || err != nil {
			t.Errorf("the log lacks a record before %s, %v", gap, err)
		}
		if from, err := s.Differs(); from != 0 || err != nil {
			t.Errorf("digests differ from %s on, %v", from, err)
		}
		must(t, s.Close())
	}
}

// A server purges while its directory is checked: files that are gone are no damage.
func TestCheckBesideAPurgeFindsNoDamage(t *testing.T) {
	for _, purged := range []string{"data/version-2/snapshot.0", "logs/version-2/log.1"} {
		for after := range 2 { // when it is first looked at, and when it is opened
			disk := directory(t)
			looks := 0
			fsys := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
				if op.Name == purged && looks == after {
					must(t, disk.Remove(purged))
				}
				if op.Name == purged {
					looks++
				}
				return nil
			}}
			report, err := Check(fsys, Options{DataDir: "data", LogDir: "logs"}, newModel)
			must(t, err)
			if !report.Sound() || report.Last != 25 || looks <= after {
				t.Errorf("%s after %d looks: %q, ends at %s", purged, looks, report.Problems, report.Last)
			}
		}
	}
}
