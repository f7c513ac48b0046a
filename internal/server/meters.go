package server

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// meters are what only a scrape of the metrics asks for. They count from the start: no
// reset sets them back.
type meters struct {
	reads, updates, snapshots, gaps, leaderGaps distribution
	bytesReceived, bytesReplied, bytesEvents    atomic.Int64

	served bool  // clients have been served before; of the loop
	idleMs int64 // since when they are not; of the loop
}

// Meters are a server's totals since its start.
type Meters struct {
	Reads       Distribution // of requests that are answered from the tree at once, in microseconds
	Updates     Distribution // of requests that the loop had, writes and syncs, in microseconds
	SyncTimes   Distribution // of the log, in microseconds
	Batches     Distribution // records of each sync
	Snapshots   Distribution // written, in microseconds
	Unavailable Distribution // from when no client was served until one could be, in microseconds
	LeaderGaps  Distribution // those of them after which this server led

	BytesReceived int64 // of requests, with their lengths
	BytesReplied  int64
	BytesEvents   int64 // of watch events
}

// Meters returns the totals.
func (s *Server) Meters() Meters {
	m := &s.meters
	return Meters{
		Reads: m.reads.report(), Updates: m.updates.report(), Snapshots: m.snapshots.report(),
		SyncTimes: s.disk.sync.times.report(), Batches: s.disk.sync.batches.report(),
		Unavailable: m.gaps.report(), LeaderGaps: m.leaderGaps.report(),
		BytesReceived: m.bytesReceived.Load(), BytesReplied: m.bytesReplied.Load(), BytesEvents: m.bytesEvents.Load(),
	}
}

// noteRole measures how long clients were not served. What passes before the first role
// is the start, and not counted. The loop calls it.
func (m *meters) noteRole(before, now Mode, nowMs int64) {
	serves := func(mode Mode) bool { return mode != ModeLooking && mode != ModeReadOnly }
	switch {
	case serves(before) && !serves(now):
		m.idleMs = nowMs
	case !serves(before) && serves(now):
		if m.served {
			m.gaps.note(1000*(nowMs-m.idleMs), 1)
			if now == ModeLeader {
				m.leaderGaps.note(1000*(nowMs-m.idleMs), 1)
			}
		}
		m.served = true
	}
}

// Buckets are so many that whole numbers up to 2^40 find one: four for each power of two,
// so that a bucket's ends differ by a quarter at most. What is larger is in the last one.
const Buckets = 4 * 40

// Distribution is how often which whole number was seen, 0 or more.
type Distribution struct {
	Count, Sum int64
	Buckets    [Buckets]int64
}

// BucketOf returns the bucket of a number; negative ones count as 0.
func BucketOf(v int64) int {
	if v < 4 {
		return int(max(0, v))
	}
	power := bits.Len64(uint64(v)) - 1
	return min(4*(power-1)+int(v>>(power-2)&3), Buckets-1)
}

// BucketStart returns the least number of a bucket.
func BucketStart(bucket int) int64 {
	if bucket < 4 {
		return int64(bucket)
	}
	power := bucket/4 + 1
	return int64(4+bucket%4) << (power - 2)
}

// distribution gathers one. Nothing is allocated.
type distribution struct {
	mu  sync.Mutex
	now Distribution
}

// note counts n times the number v.
func (d *distribution) note(v int64, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.Count += int64(n)
	d.now.Sum += v * int64(n)
	d.now.Buckets[BucketOf(v)] += int64(n)
}

func (d *distribution) noteTime(t time.Duration, n int) { d.note(t.Microseconds(), n) }

func (d *distribution) report() Distribution {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}
