package server

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// isLog tells operations on the transaction log from those on snapshots.
func isLog(op vfs.Op) bool { return strings.Contains(op.Name, "/log.") }

func TestFailedSyncEndsTheServerWithoutAReply(t *testing.T) {
	disk := vfs.NewMem()
	var broken atomic.Bool
	faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if broken.Load() && op.Kind == vfs.KindSync && isLog(op) {
			broken.Store(false) // a second try would succeed: there must be none
			return syscall.EIO
		}
		return nil
	}}
	s, stop := launch(t, faulty, nil)
	p := dial(t, s, nil)
	if code, _ := p.do(create("/kept", "", 0)); code != zk.OK {
		t.Fatal(code)
	}
	broken.Store(true)
	p.send(create("/unknown", "", 0), zk.Request{Op: zk.OpGetData, Path: "/unknown"}, zk.Request{Op: zk.OpPing})
	if n, err := io.Copy(io.Discard, p.socket); n != 0 {
		t.Fatalf("%d bytes left after the failed sync, %v", n, err)
	}
	<-s.done.Done() // nobody stopped it
	if err := stop(); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "sync") {
		t.Fatalf("ended with %v", err)
	}
	again, err := New(testConfig(disk.CrashClone(0, 1), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if _, ok := again.replica.Tree().Find("/kept"); !ok {
		t.Error("what was acknowledged is lost")
	}
}

// fills has a disk on which nothing more fits.
func fills(disk *vfs.Mem) { disk.SetCapacity(disk.Used()) }

func TestFullDiskRefusesWritesAndTheServiceResumesByItself(t *testing.T) {
	disk, now := vfs.NewMem(), clock.NewManual(0)
	s := start(t, disk, func(c *Config) { c.Clock, c.PreallocBytes = now, 32<<10 })
	a, silent := dial(t, s, nil), dial(t, s, nil)
	a.do(create("/n", "", 0))
	silent.do(create("/e", "", zk.Ephemeral))
	fills(disk)
	code := zk.OK
	for i := 0; code == zk.OK; i++ {
		if code, _ = a.do(zk.Request{Op: zk.OpSetData, Path: "/n", Data: make([]byte, 1000), Version: -1}); i > 100 {
			t.Fatal("the disk does not fill")
		}
	}
	if code != zk.ErrNotReadOnly {
		t.Fatalf("a write on a full disk: %v", code)
	}
	for range 100 { // far beyond every session's timeout
		now.Advance(s.cfg.TickTime)
		if code, _ := a.do(zk.Request{Op: zk.OpPing}); code != zk.OK {
			t.Fatalf("ping: %v", code)
		}
		if code, res := a.do(zk.Request{Op: zk.OpGetData, Path: "/n"}); code != zk.OK || len(res.Data) != 1000 {
			t.Fatalf("read: %v", code)
		}
	}
	if st := s.Status(); !st.DiskFull || st.Counts.Expired != 0 {
		t.Fatalf("%+v", st)
	}
	// A client that was disconnected comes back to its session, and keeps it.
	silent.socket.Close()
	silent = dial(t, s, silent)
	if code, _ := silent.do(zk.Request{Op: zk.OpGetData, Path: "/e"}); code != zk.OK {
		t.Fatalf("the session did not survive: %v", code)
	}
	disk.SetCapacity(-1)
	awaittest.Until(t, "writes are accepted again", func() bool {
		now.Advance(spaceRetry / 4)
		silent.do(zk.Request{Op: zk.OpPing})
		code, _ := a.do(zk.Request{Op: zk.OpSetData, Path: "/n", Version: -1})
		return code == zk.OK
	})
	if code, _ := silent.do(zk.Request{Op: zk.OpGetData, Path: "/e"}); code != zk.OK {
		t.Fatalf("the session did not survive: %v", code)
	}
}

// A file system that copies on write has no space for what the log has allocated. The write that
// finds out waits; others are refused, and reads continue.
func TestFullDiskThatCopiesOnWriteEndsNoServer(t *testing.T) {
	disk := vfs.NewMem()
	var full atomic.Bool
	s := start(t, &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if full.Load() && (op.Kind == vfs.KindWrite || op.Kind == vfs.KindAllocate || op.Kind == vfs.KindCreate) {
			return vfs.ErrNoSpace
		}
		return nil
	}}, func(c *Config) { c.PreallocBytes = 1 << 20 })
	waits, p := dial(t, s, nil), dial(t, s, nil)
	p.must(zk.OK, create("/n", "", 0))
	full.Store(true)
	waits.send(create("/waits", "", 0))
	awaittest.Until(t, "the disk is known to be full", s.diskFull.Load)
	for range 3 {
		p.must(zk.ErrNotReadOnly, create("/refused", "", 0))
		p.must(zk.OK, zk.Request{Op: zk.OpGetData, Path: "/n"})
		p.must(zk.OK, zk.Request{Op: zk.OpPing})
	}
	full.Store(false)
	if header, _ := waits.reply(zk.OpCreate); header.Code != zk.OK {
		t.Errorf("the write that waited: %v", header.Code)
	}
	awaittest.Until(t, "writes are accepted again", func() bool {
		code, _ := p.do(create("/after", "", 0))
		return code == zk.OK
	})
	again, err := New(testConfig(disk.CrashClone(0, 1), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	for _, path := range []string{"/waits", "/after"} {
		if _, ok := again.replica.Tree().Find(path); !ok {
			t.Errorf("%s is lost", path)
		}
	}
}

// Writes that are on their way when the disk fills already have their place in the order: they
// wait, and do not end the server.
func TestDiskThatFillsUnderLoadLosesNothingAndEndsNothing(t *testing.T) {
	disk := vfs.NewMem()
	s := start(t, disk, func(c *Config) { c.PreallocBytes, c.TickTime = 64<<10, 2*time.Second })
	const clients, writes = 8, 60
	var peers []*peer
	for i := range clients {
		peers = append(peers, dial(t, s, nil))
		peers[i].do(create(fmt.Sprintf("/c%d", i), "", 0))
	}
	disk.SetCapacity(disk.Used() + 256<<10)
	var ok, refused atomic.Int64
	var all sync.WaitGroup
	for i, p := range peers {
		all.Go(func() {
			var batch []zk.Request
			for range writes {
				batch = append(batch, zk.Request{Op: zk.OpSetData, Path: fmt.Sprintf("/c%d", i), Data: make([]byte, 4000), Version: -1})
			}
			reader := worker{peer: *p}
			go p.send(batch...)
			for range writes {
				h, answered := reader.answer()
				switch {
				case answered && h.Code == zk.OK:
					ok.Add(1)
				case answered && h.Code == zk.ErrNotReadOnly:
					refused.Add(1)
				default:
					t.Errorf("answer %t %v", answered, h.Code)
					return
				}
			}
		})
	}
	awaittest.Until(t, "the disk is full", s.diskFull.Load)
	disk.SetCapacity(-1)
	all.Wait()
	if ok.Load()+refused.Load() != clients*writes || s.done.Err() != nil {
		t.Fatalf("%d written, %d refused, server %v", ok.Load(), refused.Load(), s.done.Err())
	}
	t.Logf("%d written, %d refused", ok.Load(), refused.Load())
}

func TestStopWithWritesOnTheirWayEnds(t *testing.T) {
	var held atomic.Bool
	reached, release := make(chan struct{}, 1), make(chan struct{})
	faulty := &vfs.Faulty{Disk: vfs.NewMem(), Before: func(op vfs.Op) error {
		if held.Load() && op.Kind == vfs.KindSync && isLog(op) {
			select {
			case reached <- struct{}{}:
			default:
			}
			<-release
		}
		return nil
	}}
	s, stop := launch(t, faulty, nil)
	p := dial(t, s, nil)
	p.do(create("/n", "", 0))
	held.Store(true)
	p.send(zk.Request{Op: zk.OpSetData, Path: "/n", Version: -1})
	<-reached
	p.send(zk.Request{Op: zk.OpSetData, Path: "/n", Version: -1}) // after the sync under way
	awaittest.Until(t, "the second write is with the disk", func() bool {
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		return len(s.disk.mu.work) > 0
	})
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	awaittest.Until(t, "the stop has reached the disk", func() bool {
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		return s.disk.mu.ended
	})
	close(release)
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the server does not end")
	}
}

func TestSnapshotThatFindsNoSpaceIsLeftOut(t *testing.T) {
	var full atomic.Bool
	faulty := &vfs.Faulty{Disk: vfs.NewMem(), Before: func(op vfs.Op) error {
		if full.Load() && !isLog(op) && (op.Kind == vfs.KindCreate || op.Kind == vfs.KindWrite) && strings.Contains(op.Name, "snapshot") {
			return vfs.ErrNoSpace
		}
		return nil
	}}
	s := start(t, faulty, func(c *Config) { c.SnapCount = 10 })
	p := dial(t, s, nil)
	full.Store(true)
	writesUntil := func(what string, holds func() bool) { // the number of writes that it takes depends on the machine
		t.Helper()
		awaittest.Until(t, what, func() bool {
			p.must(zk.OK, create("/n", "", zk.PersistentSequential))
			return holds()
		})
	}
	writesUntil("a snapshot has failed", func() bool { return s.Status().SnapshotsFailed > 0 })
	full.Store(false)
	before := s.Status().SnapshotLast
	writesUntil("the next one has not", func() bool { return s.Status().SnapshotLast != before })
}

// A stop while a record waits for space gives up everything that comes after the record. An
// epoch on disk without its history would win elections over servers that have the history
// (ZOOKEEPER-4643).
func TestStopWhileTheDiskIsFullStoresNoEpochWithoutItsHistory(t *testing.T) {
	disk := vfs.NewMem()
	config, err := ensemble.Parse("server.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4")
	if err != nil {
		t.Fatal(err)
	}
	change := func(c *Config) {
		c.Ensemble, c.PreallocBytes = config, 32<<10
		c.QuorumAddr, c.ElectionAddr = "127.0.0.1:0", "127.0.0.1:0"
	}
	s, err := New(testConfig(disk, change))
	if err != nil {
		t.Fatal(err)
	}
	disk.SetCapacity(disk.Used() + 4<<10) // space for an epoch, none for the log
	s.disk.put([]diskWork{
		{DiskOp: replica.DiskOp{Kind: replica.DiskAppend, Zxid: zk.MakeZxid(3, 1), Payload: make([]byte, 100)}},
		{DiskOp: replica.DiskOp{Kind: replica.DiskSync, Ticket: 1}},
		{DiskOp: replica.DiskOp{Kind: replica.DiskSetAccepted, Ticket: 2, Epoch: 3}},
		{DiskOp: replica.DiskOp{Kind: replica.DiskSetCurrent, Ticket: 3, Epoch: 3}},
	})
	s.stop(errStopped)
	s.disk.stop()
	s.runDisk()
	if s.disk.err != nil {
		t.Errorf("the stop was no orderly one: %v", s.disk.err)
	}
	for _, e := range s.inbox.take().events {
		if e.Kind == replica.EventDone {
			t.Errorf("operation %d is told to be done", e.Ticket)
		}
	}
	s.close()
	disk.SetCapacity(-1)
	again, err := New(testConfig(disk, change))
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if accepted, current := again.replica.Peer().Epochs(); accepted != 0 || current != 0 || again.replica.Peer().Last() > 0 {
		t.Errorf("accepted epoch %d, current epoch %d, last record %s", accepted, current, again.replica.Peer().Last())
	}
}

// snapshotsOf are the names of a server's snapshots.
func snapshotsOf(t *testing.T, s *Server) []snap.File {
	t.Helper()
	files, err := snap.Files(s.cfg.FS, s.SnapDir())
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// manySnapshots is a server that has taken more snapshots than are kept.
func manySnapshots(t *testing.T, disk vfs.FS, change func(*Config)) *Server {
	t.Helper()
	s := start(t, disk, func(c *Config) {
		c.SnapCount, c.PreallocBytes = 4, 32<<10
		change(c)
	})
	p := dial(t, s, nil)
	p.do(create("/n", "", 0))
	p.do(create("/large", strings.Repeat("x", 64<<10), 0)) // so that a snapshot takes some space
	awaittest.Until(t, "six snapshots", func() bool {
		p.do(zk.Request{Op: zk.OpSetData, Path: "/n", Data: make([]byte, 4000), Version: -1})
		return len(snapshotsOf(t, s)) >= 6
	})
	return s
}

// TestServerThatIsRestartedOftenTakesSnapshots, although no run of it writes enough for one.
func TestServerThatIsRestartedOftenTakesSnapshots(t *testing.T) {
	const snapCount, runs = 100, 4
	mem := vfs.NewMem()
	run := func(i, writes int) (*Server, func() error) {
		s, stop := launch(t, mem, func(c *Config) { c.SnapCount = snapCount })
		p := dial(t, s, nil)
		for j := range writes {
			p.do(create(fmt.Sprintf("/n%d.%d", i, j), "", 0))
		}
		p.socket.Close()
		return s, stop
	}
	for i := range runs {
		_, stop := run(i, snapCount/2-10) // too few for a snapshot by a count that begins at the start
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	s, stop := run(runs, 0)
	awaittest.Until(t, "a snapshot after the first one", func() bool { return snapshotsOf(t, s)[0].Zxid > 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if s, _ := launch(t, mem, nil); s.recovery.Records > snapCount {
		t.Errorf("a start replays %d transactions, with snapCount=%d", s.recovery.Records, snapCount)
	}
}

// A snapshot of a large tree waits until the log has half of the tree's size, counted over
// restarts too.
func TestShareOfTheLogCountsOverRestarts(t *testing.T) {
	restarted := func(records int, bytes int64) bool {
		found := &datadir.Recovered{Records: records, Bytes: bytes}
		found.Info.Bytes = 4000
		n := newSnapshots(datadir.NewTrigger(100, 0, func(n int64) int64 { return n - 1 }), found)
		n.note(1, 1)
		return n.due.Load()
	}
	for _, test := range []struct {
		records int
		bytes   int64
		due     bool
	}{{98, 4000, false}, {99, 1998, false}, {99, 1999, true}, {500, 1000, false}, {500, 4000, true}} {
		if due := restarted(test.records, test.bytes); due != test.due {
			t.Errorf("%d records of %d bytes before the start: due %v", test.records, test.bytes, due)
		}
	}
}

// As in Apache's server: whether a snapshot was taken or not.
func TestPurgeHasATimerOfItsOwn(t *testing.T) {
	disk, now := vfs.NewMem(), clock.NewManual(0)
	s := manySnapshots(t, disk, func(c *Config) { c.Clock, c.PurgeInterval = now, time.Hour })
	awaittest.Until(t, "the timer waits for the next hour", func() bool {
		now.Advance(time.Hour)
		return len(snapshotsOf(t, s)) == 3
	})
}

func TestPurgeRunsAtTheStart(t *testing.T) {
	disk := vfs.NewMem()
	first, stop := launch(t, disk, func(c *Config) { c.SnapCount = 4 })
	p := dial(t, first, nil)
	p.do(create("/n", "", 0))
	awaittest.Until(t, "six snapshots", func() bool {
		p.do(zk.Request{Op: zk.OpSetData, Path: "/n", Version: -1})
		return len(snapshotsOf(t, first)) >= 6
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s := start(t, disk, func(c *Config) { c.PurgeInterval = time.Hour })
	awaittest.Until(t, "three are left", func() bool { return len(snapshotsOf(t, s)) == 3 })
}

// When the disk is full, everything goes that autopurge may delete, at any hour: without an
// operator there is no other way out.
func TestFullDiskIsFreedOfWhatMayBePurged(t *testing.T) {
	disk := vfs.NewMem()
	s := manySnapshots(t, disk, func(c *Config) { c.PurgeInterval = time.Hour })
	p := dial(t, s, nil)
	fills(disk)
	wasFull := false
	awaittest.Until(t, "the disk was full, and writes are accepted again", func() bool {
		code, _ := p.do(zk.Request{Op: zk.OpSetData, Path: "/n", Data: make([]byte, 1000), Version: -1})
		wasFull = wasFull || code == zk.ErrNotReadOnly || s.diskFull.Load()
		return wasFull && code == zk.OK && len(snapshotsOf(t, s)) <= 4
	})
}
