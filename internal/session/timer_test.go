package session

import (
	"math/rand/v2"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// TestTimerIsNeverTooLate: whatever happens to sessions, Expire is due no later than the end of
// the first bucket, and every session that waits to expire is in one bucket, once.
func TestTimerIsNeverTooLate(t *testing.T) {
	const step = 100
	random, now := rand.New(rand.NewPCG(1, 2)), int64(0)
	table := New(step)
	for range 20_000 {
		id := zk.SessionID(random.IntN(20) + 1)
		switch s := table.Get(id); random.IntN(40) {
		case 0:
			table.Reset(now)
		case 1:
			table.Clear()
		case 2, 3, 4:
			table.Remove(id)
		case 5, 6, 7:
			if s != nil {
				s.Coming = !s.Coming
			}
		case 8, 9, 10, 11, 12, 13, 14, 15:
			now += random.Int64N(5 * step)
			for _, id := range table.Expire(now) {
				if table.Get(id) == nil {
					t.Fatalf("session %d expires, and there is none", id)
				}
			}
		default:
			if s == nil || !s.Closing {
				table.Open(id, int32(random.IntN(20*step)), now)
			}
		}
		next, some := table.NextMs()
		listed := map[*Session]int{}
		for end, list := range table.buckets {
			if !some || next > end {
				t.Fatalf("next at %d, %v, and a bucket ends at %d", next, some, end)
			}
			for _, s := range list {
				listed[s]++
			}
		}
		for id, s := range table.byID {
			if !s.Closing && listed[s] != 1 {
				t.Fatalf("session %d is in %d buckets", id, listed[s])
			}
		}
		if table.Count() == 0 && len(listed) > 0 {
			t.Fatalf("%d sessions wait to expire, and there is none", len(listed))
		}
	}
}
