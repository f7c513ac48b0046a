package server

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapHeadroom is how much garbage may gather between two collections.
const heapHeadroom = 24 << 20

// TightenHeap keeps the garbage between two collections at a fixed size instead
// of Go's fixed share, until ctx ends; it returns then. The tree holds nearly
// all of the memory and nothing for the collector to scan, so collecting costs
// the same however large the tree is, and a share of it would only be memory
// for nothing. It sets the whole process's collector: for programs that are a
// server and nothing else.
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
		if want := gcPercent(liveBytes()); want != now {
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

func liveBytes() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// gcPercent is the share of live bytes that makes the headroom.
func gcPercent(live uint64) int {
	if live == 0 {
		return 100
	}
	return int(min(max(heapHeadroom*100/live, 4), 400))
}
