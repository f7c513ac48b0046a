package server

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much garbage may gather between two collections: heapHeadroom, or scannedShare of what a
// collection scans, if that is more.
const (
	heapHeadroom = 24 << 20
	scannedShare = 0.5
)

// A server is quiet if it has allocated no more than quietBytes of memory within quietTime.
// Then garbage and free memory are returned to the system, if at least releaseLeast bytes, or
// releaseShare of what a collection scans, were allocated since the last time. If more than
// releaseMost are free, as after the tree was replaced, the runtime returns them gradually
// instead: until all are returned no other collection can begin, which is 140 ms for a GiB.
const (
	quietTime    = time.Second
	quietBytes   = 1 << 20
	releaseLeast = 4 << 20
	releaseMost  = 128 << 20
	releaseShare = 0.25
)

// TightenHeap keeps the garbage between two collections at a fixed size, instead of Go's fixed
// share, until ctx ends; then it returns. The tree has nearly all of the memory and nothing for
// the collector to scan, so a collection costs the same however large the tree is, and a share
// of the tree's size would only waste memory. Watches and sessions are scanned. If there are
// many, a fixed size would cause collection after collection for a few more of them, so the
// size is then a share of what is scanned. A server that has become quiet returns its garbage
// to the system. TightenHeap changes the collector of the whole process: it is for programs
// that are only a server.
func TightenHeap(ctx context.Context) {
	collected := make(chan struct{}, 1)
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	now := 100
	timer := time.NewTimer(quietTime)
	defer timer.Stop()
	watchCollection(collected)
	for q := (lull{last: readHeap().taken}); ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			if q.returns(readHeap()) {
				runtime.GC() // only now the amount of free memory is known
				if readHeap().atOnce() {
					debug.FreeOSMemory()
				}
			}
			timer.Reset(quietTime) // measured from now on, so that no period is shorter
		case <-collected:
			watchCollection(collected)
			if want := readHeap().gcPercent(); want != now {
				debug.SetGCPercent(want)
				now = want
			}
		}
	}
}

// watchCollection signals the end of the next collection. It is notified of each one instead of
// polling, because a server that is being filled grows many times over between two polls.
func watchCollection(collected chan<- struct{}) {
	type sentinel struct{ _ [16]byte }
	runtime.AddCleanup(&sentinel{}, func(c chan<- struct{}) {
		select {
		case c <- struct{}{}:
		default:
		}
	}, collected)
}

// heap is what the runtime reports about memory, in bytes.
type heap struct {
	live    uint64 // in use at the end of the last collection
	scanned uint64 // what that collection scanned
	free    uint64 // neither in use nor garbage, and not returned to the system
	taken   uint64 // allocated in total since the start
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/total:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	var n [4]uint64
	for i := range n {
		n[i] = samples[i].Value.Uint64()
	}
	return heap{n[0], n[1], n[2], n[3]}
}

// gcPercent returns the share of live bytes that corresponds to the headroom.
func (h heap) gcPercent() int {
	if h.live == 0 {
		return 100
	}
	headroom := max(heapHeadroom, uint64(scannedShare*float64(h.scanned)))
	return int(min(max(headroom*100/h.live, 4), 400))
}

// atOnce reports whether the free memory may be returned to the system all at once.
func (h heap) atOnce() bool { return h.free <= releaseMost }

// lull has the total allocated quietTime ago, and the total when memory was last returned to
// the system.
type lull struct{ last, returned uint64 }

// returns reports, after a quietTime, whether to return memory to the system now.
func (q *lull) returns(h heap) bool {
	least := max(releaseLeast, uint64(releaseShare*float64(h.scanned)))
	now := h.taken-q.last < quietBytes && h.taken-q.returned >= least
	q.last = h.taken
	if now {
		q.returned = h.taken
	}
	return now
}
