package session

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// TestSessionsAreWhereTheirBucketsSay: a session that is closed leaves its bucket without a
// search, because all sessions with one timeout may be in one bucket.
func TestSessionsAreWhereTheirBucketsSay(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	table, now := New(100), int64(0)
	var open []zk.SessionID
	for i := range 20_000 {
		switch n := random.IntN(20); {
		case n < 7:
			id := testIDs.Next(table)
			table.Open(id, int32(100+random.IntN(400)), now)
			open = append(open, id)
		case n < 14 && len(open) > 0:
			table.Touch(table.Get(open[random.IntN(len(open))]), now)
		case n < 17 && len(open) > 0:
			at := random.IntN(len(open))
			table.Remove(open[at])
			open = slices.Delete(open, at, at+1)
		case n == 18:
			now += int64(random.IntN(60))
			for _, id := range table.Expire(now) {
				if random.IntN(2) == 0 { // the others stay closing
					table.Remove(id)
					open = slices.Delete(open, slices.Index(open, id), slices.Index(open, id)+1)
				}
			}
		case n == 19 && i%500 == 0:
			table.Reset(now)
		}
		if i%10 == 0 {
			judgeBuckets(t, table)
		}
	}
}

// judgeBuckets fails unless each session that is not closing is listed once, where it says, and
// no other session is.
func judgeBuckets(t *testing.T, table *Table) {
	t.Helper()
	listed := 0
	for end, list := range table.buckets {
		if len(list) == 0 {
			t.Fatalf("bucket %d is empty", end)
		}
		for i, s := range list {
			if table.Get(s.ID) != s || s.bucketMs != end || s.place != i {
				t.Fatalf("session %d, %d of bucket %d, says it is %d of %d", s.ID, i, end, s.place, s.bucketMs)
			}
			listed++
		}
	}
	for _, s := range table.byID {
		if !s.Closing {
			listed--
		}
	}
	if listed != 0 {
		t.Fatalf("%d sessions are listed too many", listed)
	}
}
