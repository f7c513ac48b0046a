package server

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// heapHeadroom is how much garbage may gather between two collections.
const heapHeadroom = 40 << 20

// TightenHeap keeps the garbage between two collections at a fixed size instead
// of Go's fixed share, until ctx ends. The tree holds nearly all of the memory
// and nothing for the collector to scan, so collecting costs the same however
// large the tree is, and a share of it would only be memory for nothing. It
// sets the whole process's collector: for programs that are a server and
// nothing else.
func TightenHeap(ctx context.Context) {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := 100
	for {
		metrics.Read(live)
		if want := gcPercent(live[0].Value.Uint64()); want < now-now/8 || want > now+now/8 {
			debug.SetGCPercent(want)
			now = want
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// gcPercent is the share of live bytes that makes the headroom.
func gcPercent(liveBytes uint64) int {
	if liveBytes == 0 {
		return 100
	}
	return int(min(max(heapHeadroom*100/liveBytes, 4), 400))
}
