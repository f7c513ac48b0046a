package server

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much garbage may gather between two collections: heapHeadroom, and scannedShare of
// what a collection looks through, if that is more.
const (
	heapHeadroom = 24 << 20
	scannedShare = 0.5
)

// A server is quiet that has taken no more than quietBytes of memory within quietTime. Then what is
// garbage, or free, returns to the system, if releaseLeast bytes were taken since it last did, or
// releaseShare of what a collection looks through. Where more than releaseMost are free, as after
// another tree has come, the runtime returns them by and by: until all are returned nobody else can
// begin a collection, 140 ms for a GiB.
const (
	quietTime    = time.Second
	quietBytes   = 1 << 20
	releaseLeast = 4 << 20
	releaseMost  = 128 << 20
	releaseShare = 0.25
)

// TightenHeap keeps the garbage between two collections at a fixed size instead
// of Go's fixed share, until ctx ends; it returns then. The tree holds nearly
// all of the memory and nothing for the collector to scan, so collecting costs
// the same however large the tree is, and a share of it would only be memory
// for nothing. Watches and sessions are scanned: where they are many a fixed size
// would be collected again and again for a few more of them, so it is a share of
// what is scanned there. A server that has become quiet returns what is garbage.
// It sets the whole process's collector: for programs that are a server and
// nothing else.
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
				runtime.GC() // only now it is known what is free
				if readHeap().atOnce() {
					debug.FreeOSMemory()
				}
			}
			timer.Reset(quietTime) // from now on, so that no time is shorter
		case <-collected:
			watchCollection(collected)
			if want := readHeap().gcPercent(); want != now {
				debug.SetGCPercent(want)
				now = want
			}
		}
	}
}

// watchCollection signals the end of the next collection: it is told of each,
// rather than asking now and then, since a server that is being filled grows
// many times over between two questions.
func watchCollection(collected chan<- struct{}) {
	type sentinel struct{ _ [16]byte }
	runtime.AddCleanup(&sentinel{}, func(c chan<- struct{}) {
		select {
		case c <- struct{}{}:
		default:
		}
	}, collected)
}

// heap is what the runtime tells of memory, in bytes.
type heap struct {
	live    uint64 // in use at the end of the last collection
	scanned uint64 // what that looked through
	free    uint64 // not in use, not garbage, and not returned to the system
	taken   uint64 // ever
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

// gcPercent is the share of live bytes that makes the headroom.
func (h heap) gcPercent() int {
	if h.live == 0 {
		return 100
	}
	headroom := max(heapHeadroom, uint64(scannedShare*float64(h.scanned)))
	return int(min(max(headroom*100/h.live, 4), 400))
}

// atOnce reports whether what is free may return to the system all at one time.
func (h heap) atOnce() bool { return h.free <= releaseMost }

// lull is what a server had taken of memory quietTime ago, and when memory last returned to the
// system.
type lull struct{ last, returned uint64 }

// returns reports, after a quietTime, whether memory returns to the system now.
func (q *lull) returns(h heap) bool {
	least := max(releaseLeast, uint64(releaseShare*float64(h.scanned)))
	now := h.taken-q.last < quietBytes && h.taken-q.returned >= least
	q.last = h.taken
	if now {
		q.returned = h.taken
	}
	return now
}
