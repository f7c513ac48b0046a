package session

import (
	"runtime"
	"testing"
)

// Each request touches its session.
func TestATouchAllocatesNothing(t *testing.T) {
	table := New(1000)
	s := table.Open(testIDs.Next(table), 30_000, 0)
	table.Open(testIDs.Next(table), 30_000, 0) // the bucket of both stays when one leaves it
	table.Touch(s, 1)
	if got := testing.AllocsPerRun(100, func() { table.Touch(s, 1); table.Get(s.ID) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// BenchmarkOpen measures the memory that a session takes on a server, without its connection.
func BenchmarkOpen(b *testing.B) {
	const sessions = 100_000
	var bytes uint64
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		table := New(1000)
		for n := range int64(sessions) {
			table.Open(testIDs.Next(table), 30_000, n/1000)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		bytes += after.HeapAlloc - before.HeapAlloc
		runtime.KeepAlive(table)
	}
	b.ReportMetric(float64(bytes)/float64(b.N*sessions), "B/session")
}
