package watch

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// Each write fires the watches of its path, mostly none. If subtrees are watched, the list of
// the paths above is built.
func TestAFireAllocatesNothingWithoutWatchesOfSubtrees(t *testing.T) {
	table := New()
	table.AddMode(1, zk.WatchPersistent, "/watched")
	to := make([]session.ConnID, 0, 8)
	for path, want := range map[string]int{"/watched": 1, "/other/a/b": 0} {
		var fired int
		if got := testing.AllocsPerRun(100, func() { fired = len(table.Fire(zk.EventNodeDataChanged, path, to)) }); got != 0 || fired != want {
			t.Errorf("%s: %v allocations for %d events, not 0 for %d", path, got, fired, want)
		}
	}
}

// BenchmarkAdd measures the memory that a watch takes on a server, one on each of many paths.
func BenchmarkAdd(b *testing.B) {
	const watches = 100_000
	paths := make([]string, watches)
	for n := range paths {
		paths[n] = fmt.Sprintf("/app/watched/n%06d", n)
	}
	var bytes uint64
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		table := New()
		for n, path := range paths {
			table.Add(session.ConnID(n%1000+1), Data, path)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		bytes += after.HeapAlloc - before.HeapAlloc
		runtime.KeepAlive(table)
	}
	b.ReportMetric(float64(bytes)/float64(b.N*watches), "B/watch")
}

// BenchmarkFireBelow is a change of a deep path whose prefixes are all watched by all
// connections. Its cost must not be the product of both.
func BenchmarkFireBelow(b *testing.B) {
	for _, conns := range []int{1, 60, 600} {
		b.Run(fmt.Sprint(conns), func(b *testing.B) {
			table := New()
			const levels = 1000
			path := deepest(table, conns, levels)
			to := make([]session.ConnID, 0, conns)
			for b.Loop() {
				to = table.Fire(zk.EventNodeDataChanged, path, to[:0])
			}
			if len(to) != conns {
				b.Fatalf("%d are told", len(to))
			}
		})
	}
}

// deepest makes so many connections watch the subtree of each prefix of a path, which it
// returns.
func deepest(table *Table, conns, levels int) string {
	path := ""
	for range levels {
		path += "/a"
		for c := range conns {
			table.AddMode(session.ConnID(c+1), zk.WatchPersistentRecursive, path)
		}
	}
	return path + "/a"
}
