package session

import (
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"testing"

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
		table := New(step, 1, 0)
		s := table.Open(table.NewID(), timeout, 0)
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

// TestNextIsWhenExpireHasSomethingToDo: a table that is asked only when it says
// so expires as early as one that is asked all the time.
func TestNextIsWhenExpireHasSomethingToDo(t *testing.T) {
	const step = 10
	rng := rand.New(rand.NewPCG(1, 2))
	lazy, eager := New(step, 1, 0), New(step, 1, 0)
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

func TestClosingSessionIsNotRevived(t *testing.T) {
	table := New(100, 1, 0)
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

// TestAShorterTimeoutTakesNothingBack that was promised before, and counts from
// then on. After a change of roles the longest in the log counts again.
func TestAShorterTimeoutTakesNothingBack(t *testing.T) {
	table := New(100, 1, 0)
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

func TestIdsOfLiveSessionsAreNotGivenAgain(t *testing.T) {
	table := New(100, 5, 0)
	table.Open(5, 1000, 0)
	table.Open(6, 1000, 0)
	if id := table.NewID(); id != 7 {
		t.Fatalf("gave %s", id)
	}
	if id := FirstID(3, 1); id != 0x0300000000010000 {
		t.Fatalf("first id %s", id)
	}
}
