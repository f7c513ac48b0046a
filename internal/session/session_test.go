package session

import (
	"encoding/hex"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/zk"
)

func TestPasswordsAreZooKeepers(t *testing.T) {
	for id, want := range map[zk.SessionID]string{
		0x1000000000000000: "f22acd4a97e69d6d20a49bb638eadb38",
		0x0100000000000001: "054cc74a37327db215e702e20c73f005",
		0x100018bcfe568000: "f11a5dae61a31074ec0ed5d1de37dbd2",
	} {
		p := PasswordOf(id)
		if got := hex.EncodeToString(p[:]); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
		if !PasswordMatches(id, p[:]) || PasswordMatches(id, p[:15]) || PasswordMatches(0, p[:]) {
			t.Errorf("%s: password does not match only itself", id)
		}
	}
}

func TestSessionExpiresAfterItsTimeoutAndWithinOneStep(t *testing.T) {
	const step, timeout = 1000, 4000
	for touched := int64(0); touched < 3*step; touched += 137 {
		table := New(step)
		s := table.Open(testIDs.Next(table), timeout, 0)
		table.Touch(s, touched)
		for now := int64(0); ; now += 10 {
			if got := table.Expire(now); len(got) > 0 {
				if now < touched+timeout || now > touched+timeout+step+10 {
					t.Errorf("touched at %d, expired at %d", touched, now)
				}
				break
			}
		}
	}
}

// A client that comes back, or opens what there is already, has its whole timeout from then on.
func TestSessionThatIsOpenedOrResumedHasItsTimeoutAgain(t *testing.T) {
	const step, timeout = 100, 1000
	for what, again := range map[string]func(table *Table, s *Session){
		"opened":  func(table *Table, s *Session) { table.Open(s.ID, timeout, 900) },
		"resumed": func(table *Table, s *Session) { table.Resume(s, 5, timeout, 900) },
	} {
		table := New(step)
		s := table.Open(7, timeout, 0)
		again(table, s)
		if got := table.Expire(900 + timeout - 1); len(got) > 0 {
			t.Errorf("%s: it expires too early", what)
		}
		if got := table.Expire(900 + timeout + step); !slices.Equal(got, []zk.SessionID{7}) {
			t.Errorf("%s: %v expired, expected session 7", what, got)
		}
		if table.Count() != 1 {
			t.Errorf("%s: there are %d sessions", what, table.Count())
		}
	}
}

// A damaged snapshot may have any timeout. Such a session expires at the next step.
func TestSessionWithoutATimeoutExpiresAtOnce(t *testing.T) {
	for _, timeout := range []int32{0, -1, math.MinInt32} {
		table := New(100)
		table.Open(7, timeout, 1000)
		if next, ok := table.NextMs(); !ok || next != 1100 {
			t.Errorf("timeout %d: next at %d, %t", timeout, next, ok)
		}
		if got := table.Expire(1100); !slices.Equal(got, []zk.SessionID{7}) {
			t.Errorf("timeout %d: %v expired, expected session 7", timeout, got)
		}
	}
}

// TestNextIsWhenExpireHasSomethingToDo: a table that is asked only at the times that it names
// expires sessions as early as one that is asked all the time.
func TestNextIsWhenExpireHasSomethingToDo(t *testing.T) {
	const step = 10
	rng := rand.New(rand.NewPCG(1, 2))
	lazy, eager := New(step), New(step)
	asked, expired := 0, 0
	for now := int64(0); now < 20_000; now++ {
		id := zk.SessionID(1 + rng.IntN(20))
		switch rng.IntN(40) {
		case 0:
			timeout := int32(50 + rng.IntN(500))
			lazy.Open(id, timeout, now)
			eager.Open(id, timeout, now)
		case 1:
			if a, b := lazy.Get(id), eager.Get(id); a != nil {
				lazy.Touch(a, now)
				eager.Touch(b, now)
			}
		case 2:
			lazy.Remove(id)
			eager.Remove(id)
		}
		want := eager.Expire(now)
		var got []zk.SessionID
		if at, ok := lazy.NextMs(); ok && at <= now {
			asked++
			got = lazy.Expire(now)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("at %d: %v expired, expected %v", now, got, want)
		}
		expired += len(want)
	}
	if expired < 100 || asked > 2000 {
		t.Errorf("%d expired, asked %d times", expired, asked)
	}
}

// The machine was suspended, or the disk full for days, and Expire was not called. Its cost
// depends on the sessions, not on the time that has passed: a walk over all this time would not
// end.
func TestExpireDoesNotWalkTheTimeThatPassed(t *testing.T) {
	const never = math.MaxInt64 / 4
	table := New(10)
	table.Open(7, 30_000, 0)
	closing := table.Open(8, 30_000, 0)
	closing.Closing = true
	lasting := table.Open(9, 30_000, 0)
	table.Touch(lasting, never) // like a heartbeat that is read before Expire
	expired := make(chan []zk.SessionID)
	go func() { expired <- table.Expire(never) }()
	select {
	case got := <-expired:
		if !slices.Equal(got, []zk.SessionID{7}) {
			t.Fatalf("expired %v", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Expire walks the time that has passed")
	}
	if next, ok := table.NextMs(); !ok || next < never+30_000 || next > never+30_010 {
		t.Fatalf("next at %d, %v", next-never, ok)
	}
	judgeBuckets(t, table)
}

// A session expires in the first call of Expire after its bucket has ended, however far apart
// the calls are.
func TestExpireAfterJumpsEqualsItsModel(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 2))
		const step = 10
		table, now := New(step), int64(0)
		ends := map[zk.SessionID]int64{}
		bucket := func(ms int64) int64 { return (ms/step + 1) * step }
		for range 2000 {
			id := zk.SessionID(1 + random.IntN(20))
			timeout := int32(1 + random.IntN(300))
			switch s := table.Get(id); {
			case random.IntN(4) == 0:
				now += random.Int64N([]int64{5, 50, 5000}[random.IntN(3)])
			case s == nil:
				table.Open(id, timeout, now)
				ends[id] = bucket(now + int64(timeout))
			case s.Closing || random.IntN(10) == 0:
				table.Remove(id)
				delete(ends, id)
			case random.IntN(3) > 0:
				table.Touch(s, now)
				ends[id] = max(ends[id], bucket(now+int64(s.TimeoutMs)))
			default:
				var want []zk.SessionID
				for id, end := range ends {
					if end <= now {
						want = append(want, id)
						delete(ends, id)
					}
				}
				slices.Sort(want)
				if got := table.Expire(now); !slices.Equal(got, want) {
					t.Fatalf("seed %d: at %d %v expire, want %v", seed, now, got, want)
				}
				judgeBuckets(t, table)
			}
		}
	}
}

func TestClosingSessionIsNotRevived(t *testing.T) {
	table := New(100)
	s := table.Open(7, 1000, 0)
	if got := table.Expire(2000); !slices.Equal(got, []zk.SessionID{7}) {
		t.Fatalf("expired %v", got)
	}
	table.Touch(s, 2001)
	if !s.Closing || len(table.Expire(10000)) != 0 {
		t.Fatal("a closing session was revived or expired twice")
	}
	table.Remove(7)
	if table.Get(7) != nil || table.Count() != 0 {
		t.Fatal("not removed")
	}
}

// TestAShorterTimeoutTakesNothingBack: a shorter timeout does not revoke what was promised
// before, and counts from then on. After a change of roles the longest timeout in the log
// counts again.
func TestAShorterTimeoutTakesNothingBack(t *testing.T) {
	table := New(100)
	s := table.Open(7, 30000, 0)
	table.Resume(s, 3, 1000, 50)
	if len(table.Expire(29900)) != 0 {
		t.Fatal("expired before the time that its client was promised")
	}
	table.Touch(s, 29950)
	if len(table.Expire(30900)) != 0 || len(table.Expire(31100)) != 1 {
		t.Fatal("the new timeout does not count")
	}
	table.Reset(40000)
	if len(table.Expire(69900)) != 0 || len(table.Expire(70200)) != 1 {
		t.Fatal("a new role counts by another timeout than that in the log")
	}
	if got := table.Leases(); got[0].TimeoutMs != 30000 {
		t.Fatalf("a snapshot has %v", got)
	}
}

// testIDs are the ids of server 3.
var testIDs = NewIDs(3, [16]byte{1}, 1)

func TestIdsOfLiveSessionsAreNotGivenAgain(t *testing.T) {
	first := NewIDs(3, [16]byte{1}, 7)
	table, locals := New(100), New(100)
	table.Open(first.Next(), 1000, 0)
	locals.Open(first.Next(), 1000, 0)
	third := first.Next()
	if id := NewIDs(3, [16]byte{1}, 7).Next(table, locals); id != third {
		t.Fatalf("gave %s", id)
	}
}

// Nobody can infer the ids of others from their own: they are not consecutive, nor are those of
// another start, or of another key.
func TestIdsAreNotToBeGuessed(t *testing.T) {
	seen := map[zk.SessionID]bool{}
	for _, ids := range []*IDs{NewIDs(200, [16]byte{1}, 7), NewIDs(200, [16]byte{1}, 8), NewIDs(200, [16]byte{2}, 7)} {
		ones := 0
		last := zk.SessionID(0)
		for range 1000 {
			id := ids.Next()
			if seen[id] || uint64(id)>>56 != 200 {
				t.Fatalf("gave %s", id)
			}
			seen[id] = true
			ones += bits.OnesCount64(uint64(id ^ last))
			last = id
		}
		if ones < 1000*26 || ones > 1000*30 {
			t.Errorf("ids differ in %d bits of 56", ones/1000)
		}
	}
}
