//go:build linux

package scale

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/test/servers"
)

// The aims for trees.
const (
	znodeBytes     = 60.0                   // in addition to path and data
	restartAim     = 600 * time.Millisecond // for a million znodes
	snapshotFactor = 2.0
	treeData       = 100

	// treePathBytes is the length of a path in loadgen.Tree.
	treePathBytes = len("/bench/t000000/n000000")
)

func trees(ctx context.Context, b *bench, t *Table) error {
	for _, n := range b.sizes([]int{100_000, 1_000_000}, []int{100_000, 1_000_000, 3_000_000, 10_000_000}) {
		if err := bigTree(ctx, b, t, n); err != nil {
			return err
		}
	}
	return directories(ctx, b, t)
}

// diskBytesOfZnode is roughly the disk space of a znode while a tree is made: its log and
// three snapshots.
const diskBytesOfZnode = 1000

// fitsDisk reports whether the disk has space for a tree of n znodes; if not, it adds a
// note to the table.
func fitsDisk(t *Table, n int) bool {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(os.TempDir(), &disk); err != nil {
		return true // unknown free space: a full disk will show
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < uint64(n)*diskBytesOfZnode {
		t.note("%s znodes are left out: the disk has %d GiB", sizeText(n), free>>30)
		return false
	}
	return true
}

// bigTree measures one server with a tree of n znodes.
func bigTree(ctx context.Context, b *bench, t *Table, n int) error {
	if !fitsDisk(t, n) {
		return nil
	}
	return b.server(ctx, servers.Options{Config: []string{"snapCount=10000", "autopurge.purgeInterval=15s"}}, func(s *servers.Server) error {
		before, err := atRest(ctx, s)
		if err != nil {
			return err
		}
		b.say("a tree of %d znodes", n)
		o := loadgen.Options{Addrs: []string{s.Addr}, DataBytes: treeData}
		start := time.Now()
		last, err := loadgen.Tree(ctx, o, n)
		if err != nil {
			return err
		}
		t.flat("time to create a znode, 1,024 at a time", n, micros(time.Since(start))/float64(n), "µs", 0)
		if err := awaitNoSnapshot(ctx, s); err != nil {
			return err
		}
		after, err := atRest(ctx, s)
		if err != nil {
			return err
		}
		over := float64(after-before)/float64(n) - treeData - float64(treePathBytes)
		t.flat("memory of a znode beyond path and data", n, over, "bytes", znodeBytes)
		if err := snapshotsBeside(ctx, b, t, s, n); err != nil {
			return err
		}
		s.Crash()
		start = time.Now()
		if err := s.Restart(ctx); err != nil {
			return err
		}
		for err = loadgen.Answers(ctx, o, last); err != nil; err = loadgen.Answers(ctx, o, last) {
			if perr := pause(ctx, 5*time.Millisecond); perr != nil {
				return perr
			}
		}
		t.flat("restart after a kill, for each million znodes", n, ms(time.Since(start))*1e6/float64(n), "ms", ms(restartAim))
		if after, err = s.RSS(); err != nil {
			return err
		}
		over = float64(after-before)/float64(n) - treeData - float64(treePathBytes)
		t.flat("memory of a znode beyond path and data, after a restart", n, over, "bytes", 0)
		return nil
	})
}

// While snapshots are measured, an additional load makes the log grow: a new snapshot needs
// a log that has grown by half of the last one.
const (
	snapshotRounds    = 3
	snapshotDataBytes = 4 << 10
	snapshotWithin    = 2 * time.Minute
)

// snapshotsBeside compares the latency of writes while a snapshot is written with the
// latency in between. The additional load is the same in both cases.
func snapshotsBeside(ctx context.Context, b *bench, t *Table, s *servers.Server, n int) error {
	b.say("snapshots of %d znodes while writing", n)
	ctx, cancel := context.WithTimeout(ctx, snapshotWithin)
	defer cancel()
	o := loadgen.Options{Addrs: []string{s.Addr}, Workload: loadgen.Set, Prefix: "/beside", DataBytes: snapshotDataBytes,
		Znodes: 100, Connections: 2, InFlight: 4, Duration: snapshotWithin}
	if err := loadgen.Fill(ctx, o); err != nil {
		return err
	}
	loading, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The context ends it, so its error does not matter.
		_, _ = loadgen.Run(loading, o)
	}()
	defer func() { stop(); <-ended }()
	p, err := startPulse(s.Addr, 0, setting("/writer"))
	if err != nil {
		return err
	}
	defer p.end()
	var laps [2]loadgen.Histogram // without a snapshot, and with one
	was, rounds := 0, 0
	for rounds < snapshotRounds {
		if pause(ctx, 2*time.Millisecond) != nil {
			t.note("%s znodes: %d snapshots within %v", sizeText(n), rounds, snapshotWithin)
			break
		}
		is := 0
		if snapshotUnderWay(s) {
			is = 1
		}
		if is == was {
			continue
		}
		lap, err := p.reset()
		if err != nil {
			return err
		}
		laps[was].Merge(lap)
		rounds += was
		was = is
	}
	if laps[1].Count() == 0 {
		return nil
	}
	without, with := laps[0].Quantile(0.99), laps[1].Quantile(0.99)
	t.add("p99 of a write, no snapshot under way", n, ms(without), "ms")
	t.add("p99 of a write during a snapshot", n, ms(with), "ms")
	t.aim("p99 of a write during a snapshot, times that without", n, float64(with)/float64(max(1, without)), "", snapshotFactor)
	t.add("writes during a snapshot, of one client", n, float64(laps[1].Count())/float64(max(1, rounds)), "")
	t.add("longest write during a snapshot", n, ms(laps[1].Max()), "ms")
	return nil
}

// awaitNoSnapshot waits until no snapshot is being written.
func awaitNoSnapshot(ctx context.Context, s *servers.Server) error {
	for snapshotUnderWay(s) {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// snapshotUnderWay reports whether a server is writing a snapshot.
func snapshotUnderWay(s *servers.Server) bool {
	entries, err := os.ReadDir(filepath.Join(s.DataDir, "version-2"))
	if err != nil {
		return false
	}
	for _, e := range entries {
		if snap.IsTemp(e.Name()) {
			return true
		}
	}
	return false
}
