package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// ensemble is three servers on disks in memory, which take snapshots all the time.
type ensemble struct {
	*inprocess.Ensemble
	t     *testing.T
	disks map[int]*vfs.Mem

	written atomic.Int64 // changes that were acknowledged
	ahead   atomic.Int64 // how far the servers' wall clock is ahead of this machine's
}

func (e *ensemble) wall() time.Time { return time.Now().Add(time.Duration(e.ahead.Load())) }

func launch(t *testing.T, disks map[int]*vfs.Mem) *ensemble {
	t.Helper()
	base := server.Default()
	base.TickTime, base.SilenceTime, base.PreallocBytes = 200*time.Millisecond, 20*time.Second, 1<<20
	base.SnapCount, base.ExtendedTypes, base.HistoryMax = 40, true, 50_000
	e := &ensemble{t: t, disks: disks}
	servers, err := inprocess.Start(inprocess.Options{Servers: len(disks), Base: base, Change: func(id int, c *server.Config) {
		c.FS, c.DataDir, c.Wall = disks[id], "/data", e.wall
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Close)
	e.Ensemble = servers
	return e
}

func begin(t *testing.T) *ensemble {
	return launch(t, map[int]*vfs.Mem{1: vfs.NewMem(), 2: vfs.NewMem(), 3: vfs.NewMem()})
}

func (e *ensemble) dial() *client.Client {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, strings.Join(e.Addrs(), ","), client.Options{RetryFor: time.Minute})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { c.Close() })
	return c
}

// served waits until all servers serve.
func (e *ensemble) served() {
	e.t.Helper()
	awaittest.Until(e.t, "all servers serve", func() bool {
		for id := range e.disks {
			if s := e.Server(id); s == nil || s.Role().Mode == server.ModeLooking {
				return false
			}
		}
		return true
	})
}

// source is the data of a server that may be running.
func (e *ensemble) source(id int) backup.Source {
	return backup.Source{
		FS: e.disks[id], SnapDir: "/data/version-2", LogDir: "/data/version-2", Now: e.wall,
		Committed: func(context.Context) (zk.Zxid, error) {
			s := e.Server(id)
			if s == nil {
				return 0, errors.New("the server is down")
			}
			return s.Status().Last, nil
		},
	}
}

// write changes the tree in every way until it is told to stop.
func (e *ensemble) write(ctx context.Context, c *client.Client, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	for i := 0; ctx.Err() == nil; i++ {
		path := fmt.Sprintf("/d%d", random.IntN(8))
		child := fmt.Sprintf("%s/c%d", path, random.IntN(40))
		var err error
		switch random.IntN(6) {
		case 0:
			_, _, err = c.Create(ctx, path, nil, client.CreateOptions{})
		case 1:
			mode := []zk.CreateMode{zk.Persistent, zk.Ephemeral}[random.IntN(2)]
			_, _, err = c.Create(ctx, child, []byte(strconv.Itoa(i)), client.CreateOptions{Mode: mode})
		case 2:
			_, _, err = c.Create(ctx, path+"/s-", []byte("x"), client.CreateOptions{Mode: zk.PersistentSequential})
		case 3:
			_, err = c.Set(ctx, child, bytes.Repeat([]byte{byte(i)}, random.IntN(200)), -1)
		case 4:
			err = c.Delete(ctx, child, -1)
		case 5:
			_, err = c.Multi(ctx, client.SetOp(path, []byte("m"), -1), client.CreateOp(child, nil, client.CreateOptions{}))
		}
		if err == nil {
			e.written.Add(1)
		}
	}
}

// under runs a function while others write.
func (e *ensemble) under(f func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	for i := range 3 {
		c := e.dial()
		writers.Go(func() { e.write(ctx, c, uint64(i)) })
	}
	f()
	cancel()
	writers.Wait()
}

func open(t *testing.T, place backup.Place) *backup.Backup {
	t.Helper()
	b, err := backup.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// whole ends the servers and returns the disk of one that has the log from the beginning on,
// nil if there is none: a server that a leader has sent its state has no log from before.
func (e *ensemble) whole() vfs.FS {
	e.t.Helper()
	for id := range e.disks {
		if err := e.Stop(id); err != nil {
			e.t.Fatal(err)
		}
	}
	for _, disk := range e.disks {
		if segments, err := txnlog.Segments(disk, "/data/version-2"); err == nil && len(segments) > 0 && segments[0].First == zk.MakeZxid(1, 1) {
			return disk
		}
	}
	return nil
}

// digests replays the whole log of a server that purges nothing, and returns the digest after
// each transaction: computed in another way than that of a backup.
func digests(t *testing.T, disk vfs.FS) map[zk.Zxid]zk.Digest {
	t.Helper()
	target := replicadisk.NewTarget(replicadisk.Options{ExtendedTypes: true})
	target.Finish(0)
	reader, err := txnlog.NewReader(disk, "/data/version-2", 0, txnlog.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	all := map[zk.Zxid]zk.Digest{}
	for {
		r, err := reader.Next()
		if err == io.EOF {
			return all
		}
		if err == nil {
			err = target.Replay(r.Zxid, r.Payload)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[r.Zxid] = target.Tree().Digest()
	}
}

// takenUnderLoad takes backups of two servers in turn while leaders are killed, counts their
// snapshots, and returns the digest after each transaction, nil where no server can tell.
func takenUnderLoad(t *testing.T) (place backup.Place, snapshots int, truth map[zk.Zxid]zk.Digest) {
	t.Helper()
	e := begin(t)
	place = backup.OpenDir(vfs.NewMem(), "/")
	const changes = 40 // between two backups
	taken := 0
	take := func(o backup.Options) {
		b := open(t, place)
		got, err := b.Take(t.Context(), e.source(1+taken%2), o)
		if err != nil {
			t.Fatalf("backup %d: %v", taken, err)
		}
		if taken++; got.Snapshot != "" {
			snapshots++
		}
	}
	e.served()
	e.under(func() {
		for i := range 24 {
			before := e.written.Load()
			awaittest.Until(t, "the tree has changed", func() bool { return e.written.Load() >= before+changes })
			take(backup.Options{Snapshot: i%8 == 7})
			if leader := e.Leader(); i%6 == 5 && leader > 0 {
				if err := e.Kill(leader); err != nil {
					t.Fatal(err)
				}
				if err := e.Start(leader); err != nil {
					t.Fatal(err)
				}
				e.dial()
			}
		}
	})
	take(backup.Options{})
	if disk := e.whole(); disk != nil {
		truth = digests(t, disk)
	}
	return place, snapshots, truth
}

// Backups are taken of two servers in turn, under load, while leaders are killed. Then every
// state that is in reach is restored: its digest is the one that a replay of the whole log has
// at that zxid.
func TestEveryStateIsRestoredExactly(t *testing.T) {
	var place backup.Place
	var truth map[zk.Zxid]zk.Digest
	snapshots := 0
	for truth == nil { // which states leaders send depends on chance
		place, snapshots, truth = takenUnderLoad(t)
	}
	b := open(t, place)
	ranges := b.Ranges()
	if len(ranges) < 3 || snapshots < 4 {
		t.Fatalf("%d snapshots, %v", snapshots, ranges)
	}
	tried := 0
	for zxid, digest := range truth {
		covered := slices.ContainsFunc(ranges, func(r backup.Range) bool { return r.First <= zxid && zxid <= r.Last })
		if !covered || tried == 150 { // a server that took over a snapshot has no log from before it
			continue
		}
		tried++
		state, err := b.Load(t.Context(), backup.Moment{Zxid: zxid})
		if err != nil {
			t.Fatalf("%s of %v: %v", zxid, ranges, err)
		}
		if got := state.Tree().Digest(); state.Zxid != zxid || got != digest || state.Mismatches > 0 {
			t.Fatalf("asked for %s: %s with digest %v, expected %v; %d differ", zxid, state.Zxid, got, digest, state.Mismatches)
		}
	}
	if tried < 100 {
		t.Fatalf("%d states tried", tried)
	}
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// The state that is restored on two servers wins against a server on which it was not restored.
// A client that saw the end of the old history is let in, and told that its session has
// expired.
func TestRestoredServerWins(t *testing.T) {
	e := begin(t)
	c := e.dial()
	mem := vfs.NewMem()
	place := backup.OpenDir(mem, "/")
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, stat, err := c.Create(t.Context(), "/kept", []byte("a"), client.CreateOptions{})
	must(nil, err)
	awaittest.Until(t, "server 1 has it", func() bool { // the client may be connected to another
		last, err := e.source(1).Committed(t.Context())
		return err == nil && last >= stat.Czxid
	})
	awaittest.Until(t, "its log has it, too", func() bool {
		taken, err := open(t, place).Take(t.Context(), e.source(1), backup.Options{})
		must(nil, err)
		return taken.Committed == 0
	})
	_, _, err = c.Create(t.Context(), "/lost", nil, client.CreateOptions{})
	must(nil, err)
	must(c.Set(t.Context(), "/kept", []byte("b"), -1))
	session := c.Detach()
	e.Close()

	b := open(t, place)
	state, err := b.Load(t.Context(), backup.Moment{})
	must(nil, err)
	restored := vfs.NewMem()
	zxid, err := b.Restore(restored, datadir.Options{DataDir: "/data"}, state)
	must(nil, err)
	if _, err := b.Restore(restored, datadir.Options{DataDir: "/data"}, state); err == nil || !strings.Contains(err.Error(), "has a history") {
		t.Errorf("restored over a history: %v", err)
	}
	second := vfs.NewMem()
	state, err = b.Load(t.Context(), backup.Moment{})
	must(nil, err)
	must(b.Restore(second, datadir.Options{DataDir: "/data"}, state))
	again := launch(t, map[int]*vfs.Mem{1: restored, 2: second, 3: e.disks[3]})
	if _, err := client.Dial(t.Context(), strings.Join(again.Addrs(), ","), client.Options{Resume: &session}); !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("the session of before: %v", err)
	}
	later := again.dial()
	data, _, err := later.Get(t.Context(), "/kept")
	if err != nil || string(data) != "a" {
		t.Errorf("%q, %v", data, err)
	}
	if _, _, err := later.Get(t.Context(), "/lost"); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("the time after the backup is still there: %v", err)
	}
	stat, err = later.Set(t.Context(), "/kept", []byte("c"), -1)
	if err != nil || stat.Mzxid <= zxid {
		t.Errorf("%+v, %v: expected a zxid above %s", stat, err, zxid)
	}
}

// history makes a server's data with n transactions and returns its source; the server is
// stopped.
func history(t *testing.T, n int) (*ensemble, backup.Source) {
	t.Helper()
	e := launch(t, map[int]*vfs.Mem{1: vfs.NewMem()})
	c := e.dial()
	for i := range n {
		if _, _, err := c.Create(t.Context(), fmt.Sprintf("/n%d", i), nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s := e.source(1)
	last := e.Server(1).Status().Last
	s.Committed = func(context.Context) (zk.Zxid, error) { return last, nil }
	return e, s
}

func TestRecordsThatAreNotCommittedAreNotTaken(t *testing.T) {
	_, s := history(t, 30)
	s.Committed = func(context.Context) (zk.Zxid, error) { return 12, nil }
	place := backup.OpenDir(vfs.NewMem(), "/")
	taken, err := open(t, place).Take(t.Context(), s, backup.Options{})
	if err != nil || taken.Last != 12 {
		t.Fatalf("%+v, %v", taken, err)
	}
	b := open(t, place)
	if _, err := b.Load(t.Context(), backup.Moment{Zxid: 13}); !errors.Is(err, backup.ErrOutside) {
		t.Errorf("a state that was not committed: %v", err)
	}
	if state, err := b.Load(t.Context(), backup.Moment{}); err != nil || state.Zxid != 12 {
		t.Errorf("%v, %v", state, err)
	}
}

// A log that was purged leaves a gap, which a new snapshot ends. States before the gap stay in
// reach, those in it are refused.
func TestPurgedLogMakesAGap(t *testing.T) {
	e, s := history(t, 200)
	place := backup.OpenDir(vfs.NewMem(), "/")
	early := s
	early.Committed = func(context.Context) (zk.Zxid, error) { return 15, nil }
	if taken, err := open(t, place).Take(t.Context(), early, backup.Options{}); err != nil || taken.Gap {
		t.Fatalf("%+v, %v", taken, err)
	}
	var purged []txnlog.Segment // segments that the newest snapshot does not need
	c, more := e.dial(), 0
	awaittest.Until(t, "a snapshot is far from the beginning", func() bool {
		// The one that is made of the history may have been the first: it takes more for another.
		if _, _, err := c.Create(t.Context(), fmt.Sprintf("/more%d", more), nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		more++
		segments, err := txnlog.Segments(s.FS, s.LogDir)
		if err != nil {
			t.Fatal(err)
		}
		next := newestSnapshot(t, s) + 1
		needed := 0
		for needed+1 < len(segments) && segments[needed+1].First <= next {
			needed++
		}
		purged = segments[:needed]
		return segments[needed].First > 30
	})
	last := e.Server(1).Status().Last
	s.Committed = func(context.Context) (zk.Zxid, error) { return last, nil }
	for _, segment := range purged {
		if err := s.FS.Remove(filepath.Join(s.LogDir, segment.Name)); err != nil {
			t.Fatal(err)
		}
	}
	taken, err := open(t, place).Take(t.Context(), s, backup.Options{})
	if err != nil || !taken.Gap || taken.Snapshot == "" {
		t.Fatalf("%+v, %v", taken, err)
	}
	b := open(t, place)
	for zxid, ok := range map[zk.Zxid]bool{15: true, 30: false, taken.Last: true} {
		state, err := b.Load(t.Context(), backup.Moment{Zxid: zxid})
		if ok != (err == nil) || !ok && !errors.Is(err, backup.ErrOutside) || ok && state.Zxid != zxid {
			t.Errorf("%s: %v", zxid, err)
		}
	}
}

// A server whose history contradicts the backup adds nothing to it.
func TestAnotherHistoryIsRefused(t *testing.T) {
	_, one := history(t, 20)
	ended := time.Now().UnixMilli() // two histories are told apart by the times of their transactions
	awaittest.Until(t, "the next millisecond", func() bool { return time.Now().UnixMilli() > ended })
	_, other := history(t, 40)
	mem := vfs.NewMem()
	place := backup.OpenDir(mem, "/")
	if _, err := open(t, place).Take(t.Context(), one, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	before, _ := mem.List("/")
	_, err := open(t, place).Take(t.Context(), other, backup.Options{})
	if !errors.Is(err, backup.ErrOtherHistory) {
		t.Errorf("taken of another ensemble: %v", err)
	}
	if after, _ := mem.List("/"); len(after) != len(before) {
		t.Errorf("%v became %v", before, after)
	}
}

// A moment in time is the state before the first transaction that is later.
func TestTimesAreMoments(t *testing.T) {
	e, s := history(t, 3)
	c := e.dial()
	place := backup.OpenDir(vfs.NewMem(), "/")
	s.Committed = e.source(1).Committed
	if _, err := open(t, place).Take(t.Context(), s, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	var times []time.Time
	for i := range 3 {
		e.ahead.Add(int64(20 * time.Millisecond))
		times = append(times, e.wall())
		e.ahead.Add(int64(20 * time.Millisecond))
		if _, _, err := c.Create(t.Context(), fmt.Sprintf("/t%d", i), nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := open(t, place).Take(t.Context(), s, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	b := open(t, place)
	for i, at := range times {
		state, err := b.Load(t.Context(), backup.Moment{Time: at})
		if err != nil {
			t.Fatal(err)
		}
		for j := range times {
			if _, found := state.Tree().Find(fmt.Sprintf("/t%d", j)); found != (j < i) {
				t.Errorf("at time %d /t%d is there: %v", i, j, found)
			}
		}
	}
	if _, err := b.Load(t.Context(), backup.Moment{Time: times[0].Add(-time.Hour)}); !errors.Is(err, backup.ErrOutside) {
		t.Errorf("before the backup: %v", err)
	}
}

// Whatever bit of a piece is flipped: it is reported as damage, or it changes nothing.
func TestDamagedPiecesAreRefused(t *testing.T) {
	_, s := history(t, 90)
	mem := vfs.NewMem()
	place := backup.OpenDir(mem, "/")
	if _, err := open(t, place).Take(t.Context(), s, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	right, err := open(t, place).Load(t.Context(), backup.Moment{})
	if err != nil {
		t.Fatal(err)
	}
	names, _ := mem.List("/")
	for _, name := range names {
		content, err := vfs.ReadFile(mem, "/"+name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for at := range content {
			flipped := bytes.Clone(content)
			flipped[at] ^= 1 << (at % 8)
			if err := vfs.ReplaceFile(mem, "/"+name, "/t", flipped); err != nil {
				t.Fatal(err)
			}
			state, err := open(t, place).Load(t.Context(), backup.Moment{})
			if err == nil && (state.Zxid != right.Zxid || state.Tree().Digest() != right.Tree().Digest()) {
				t.Fatalf("%s with byte %d changed gives another state", name, at)
			}
			if err != nil && !vfs.IsCorruption(err) {
				t.Fatalf("%s with byte %d changed: %v", name, at, err)
			}
		}
		for _, length := range []int{0, len(content) / 2, len(content) - 1} {
			if err := vfs.ReplaceFile(mem, "/"+name, "/t", content[:length]); err != nil {
				t.Fatal(err)
			}
			if _, err := open(t, place).Load(t.Context(), backup.Moment{}); !vfs.IsCorruption(err) {
				t.Fatalf("%d bytes of %s: %v", length, name, err)
			}
		}
		if err := vfs.ReplaceFile(mem, "/"+name, "/t", content); err != nil {
			t.Fatal(err)
		}
	}
}

// newestSnapshot returns the zxid of a server's newest snapshot, -1 if it has none.
func newestSnapshot(t *testing.T, s backup.Source) zk.Zxid {
	files, err := snap.Files(s.FS, s.SnapDir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		return -1
	}
	return files[0].Zxid
}

// Pruning keeps every state at or after the moment, and later takes continue the backup.
func TestPruneKeepsWhatIsWanted(t *testing.T) {
	e, s := history(t, 30)
	c := e.dial()
	s.Committed = e.source(1).Committed
	mem := vfs.NewMem()
	place := backup.OpenDir(mem, "/")
	clock := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	s.Now = func() time.Time { return clock }
	newest := newestSnapshot(t, s)
	for day := range 5 {
		e.ahead.Store(int64(time.Until(clock))) // the server's transactions are of that day
		wrote := 0
		awaittest.Until(t, "the server has a snapshot of the day", func() bool {
			if _, _, err := c.Create(t.Context(), fmt.Sprintf("/d%d-%d", day, wrote), nil, client.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			wrote++
			return wrote >= 45 && newestSnapshot(t, s) > newest
		})
		newest = newestSnapshot(t, s)
		if _, err := open(t, place).Take(t.Context(), s, backup.Options{Snapshot: true}); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(24 * time.Hour)
	}
	b := open(t, place)
	before := b.Ranges()
	cutoff := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	removed, err := b.Prune(t.Context(), cutoff)
	if err != nil || len(removed) == 0 {
		t.Fatalf("%v, %v", removed, err)
	}
	after := b.Ranges()
	for _, r := range before {
		if kept := slices.Contains(after, r); !kept && r.FirstTime.After(cutoff) {
			t.Errorf("%v is gone", r)
		}
	}
	if after[0].FirstTime.After(cutoff) || before[0] == after[0] {
		t.Errorf("%v became %v", before, after)
	}
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if taken, err := b.Take(t.Context(), s, backup.Options{}); err != nil || taken.Gap || taken.Snapshot != "" {
		t.Errorf("%+v, %v", taken, err)
	}
}

// A piece unpacked is a file that a ZooKeeper server can read.
func TestPiecesAreFilesOfZooKeeper(t *testing.T) {
	_, s := history(t, 30)
	mem := vfs.NewMem()
	if _, err := open(t, backup.OpenDir(mem, "/")).Take(t.Context(), s, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	names, _ := mem.List("/")
	disk := vfs.NewMem()
	if err := disk.MkdirAll("/data/version-2"); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		packed, err := vfs.ReadFile(mem, "/"+name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		as := "snapshot." + strings.TrimLeft(name[len("snapshot-"):][:15], "0") + name[len("snapshot-")+15:][:1]
		if strings.HasPrefix(name, "log-") { // a log is named after its first transaction
			as = txnlog.SegmentName(zk.Zxid(binary.BigEndian.Uint64(content[16+12+12:])))
		}
		if err := vfs.ReplaceFile(disk, "/data/version-2/"+as, "/data/version-2/t", content); err != nil {
			t.Fatal(err)
		}
	}
	report, err := replicadisk.Check(disk, replicadisk.Options{Store: datadir.Options{DataDir: "/data"}})
	last, _ := s.Committed(t.Context())
	if err != nil || !report.Sound() || report.Last != last {
		t.Errorf("%+v, %v", report, err)
	}
}
