package server

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// A collection for a portion of garbage costs the same however large the tree is, and a share
// of what was allocated, however many watches there are.
func TestHeapGrowsByWhatACollectionLooksThrough(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		what          string
		live, scanned uint64
		want          int
	}{
		{"nothing yet", 0, 0, 100},
		{"a small server", 4 * mib, 2 * mib, 400},
		{"a tree of a million znodes", 240 * mib, 10 * mib, 10},
		{"a tree of ten million", 2400 * mib, 10 * mib, 4},
		{"a million watches", 160 * mib, 150 * mib, 46},
		{"ten million", 1600 * mib, 1500 * mib, 46},
		{"both", 1600 * mib, 800 * mib, 25},
	} {
		if got := (heap{live: c.live, scanned: c.scanned}).gcPercent(); got != c.want {
			t.Errorf("%s: %d", c.what, got)
		}
	}
	if h := readHeap(); h.scanned == 0 || h.taken == 0 || h.live > 1<<40 || h.free > 1<<40 {
		t.Errorf("%+v", h)
	}
}

// Memory is returned when a server is quiet and has allocated enough, in proportion to the cost
// of a collection. A server that stays quiet collects no more.
func TestAQuietServerReturnsMemory(t *testing.T) {
	const mib = 1 << 20
	var q lull
	for i, c := range []struct {
		what    string
		taken   uint64
		scanned uint64
		want    bool
	}{
		{"under load", 100 * mib, 10 * mib, false},
		{"still", 101 * mib, 10 * mib, false},
		{"after it", 101*mib + 1000, 10 * mib, true},
		{"nothing happens", 101*mib + 1000, 10 * mib, false},
		{"a little", 102 * mib, 10 * mib, false},
		{"a little more", 103*mib - 1, 10 * mib, false},
		{"and more", 104*mib - 2, 10 * mib, false},
		{"too little in all", 105*mib - 3, 10 * mib, false},
		{"enough", 105*mib + 1000, 10 * mib, true},
		{"another load", 204 * mib, 400 * mib, false},
		{"too little for what is scanned", 204*mib + 1, 400 * mib, false},
		{"enough for it", 205*mib + 1000 - mib/2, 398 * mib, true},
		{"nothing again", 205*mib + 1000 - mib/2, 10 * mib, false},
	} {
		if got := q.returns(heap{scanned: c.scanned, taken: c.taken}); got != c.want {
			t.Errorf("%d, %s: %v", i, c.what, got)
		}
	}
	if !(heap{free: releaseMost}).atOnce() || (heap{free: releaseMost + 1}).atOnce() {
		t.Error("the bound of what is returned at one time does not hold")
	}
}

// The effect of TightenHeap on the process: the headroom follows what is in use, up and down,
// and garbage is returned when no requests come.
func TestTightenHeap(t *testing.T) {
	const mib = 1 << 20
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { TightenHeap(ctx) })
	defer running.Wait()
	defer stop()
	read := func(name string) uint64 {
		sample := []metrics.Sample{{Name: name}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	percent := func() uint64 { return read("/gc/gogc:percent") }
	awaittest.Until(t, "a small heap has its headroom", func() bool {
		runtime.GC()
		return percent() > 100
	})
	large := make([]byte, 400*mib)
	awaittest.Until(t, "a large heap has a share of its own", func() bool {
		runtime.GC()
		return percent() < 20
	})
	runtime.KeepAlive(large)
	large = nil
	awaittest.Until(t, "the heap is small again", func() bool {
		runtime.GC()
		return percent() > 100
	})
	debug.FreeOSMemory()
	garbage := make([]byte, 100*mib)
	returned := read("/memory/classes/heap/released:bytes")
	garbage[0] = byte(len(large))
	runtime.KeepAlive(garbage)
	garbage = nil
	awaittest.Until(t, "a quiet process has returned its garbage", func() bool {
		return read("/memory/classes/heap/released:bytes") >= returned+90*mib
	})
}
