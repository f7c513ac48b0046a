package lobby

import (
	"sync"
	"sync/atomic"
	"testing"
)

// All failures are counted, and one goroutine logs them once a minute.
func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	var f Failures
	for i, step := range []struct {
		nowMs, n int64
		tell     bool
	}{
		{0, 1, true}, // the first one, at any time
		{1, 1, false},
		{60_999, 5, false},
		{61_000, 1, true},
		{120_999, 1, false},
		{121_000, 1, true},
		{1_000_000, 2, true},
	} {
		before := f.Count()
		count, tell := f.NoteAll(step.nowMs, step.n)
		if count != before+step.n || tell != step.tell {
			t.Errorf("step %d, at %d ms: %d failures, logged: %t", i, step.nowMs, count, tell)
		}
	}
	if count, tell := f.Note(1_000_001); count != 13 || tell {
		t.Errorf("%d failures, logged: %t", count, tell)
	}
	var logged atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if _, tell := f.Note(2_000_000); tell {
					logged.Add(1)
				}
			}
		})
	}
	all.Wait()
	if f.Count() != 8013 || logged.Load() != 1 {
		t.Errorf("%d failures, logged %d times at one moment", f.Count(), logged.Load())
	}
}
