package server

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much garbage may gather between two collections: heapHeadroom, and scannedShare of
// what a collection looks through, if that is more.
const (
	heapHeadroom = 24 << 20
	scannedShare = 0.5
)

// TightenHeap keeps the garbage between two collections at a fixed size instead
// of Go's fixed share, until ctx ends; it returns then. The tree holds nearly
// all of the memory and nothing for the collector to scan, so collecting costs
// the same however large the tree is, and a share of it would only be memory
// for nothing. Watches and sessions are scanned: where they are many a fixed size
// would be collected again and again for a few more of them, so it is a share of
// what is scanned there. It sets the whole process's collector: for programs that
// are a server and nothing else.
func TightenHeap(ctx context.Context) {
	collected := make(chan struct{}, 1)
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	now := 100
	for watchCollection(collected); ; watchCollection(collected) {
		select {
		case <-ctx.Done():
			return
		case <-collected:
		}
		if want := gcPercent(heapBytes()); want != now {
			debug.SetGCPercent(want)
			now = want
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

// heapBytes are what the last collection has found in use, and what it looked through.
func heapBytes() (live, scanned uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/total:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}

// gcPercent is the share of live bytes that makes the headroom.
func gcPercent(live, scanned uint64) int {
	if live == 0 {
		return 100
	}
	headroom := max(heapHeadroom, uint64(scannedShare*float64(scanned)))
	return int(min(max(headroom*100/live, 4), 400))
}
