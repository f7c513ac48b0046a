package azureblob

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

func TestLeaseIsOneThatTheServiceGives(t *testing.T) {
	for _, test := range []struct{ wanted, want time.Duration }{
		{time.Second, LeaseMin},
		{LeaseMin, LeaseMin},
		{17900 * time.Millisecond, 17 * time.Second},
		{LeaseMax, LeaseMax},
		{time.Hour, LeaseMax},
	} {
		if got := leaseOf(election.Claim{Lease: test.wanted}); got != test.want {
			t.Errorf("%v: %v", test.wanted, got)
		}
	}
}

func TestLeaseIDIsTheNonceInGroups(t *testing.T) {
	if got := leaseID("0123456789abcdef0123456789abcdef"); got != "01234567-89ab-cdef-0123-456789abcdef" {
		t.Errorf("got %s", got)
	}
}

func TestEveryElectionHasBlobsOfItsOwn(t *testing.T) {
	b, err := New(&container.Client{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, name := range []string{"a", "a/b", "a%2Fb", "a%2fb", "ä", ".a", "a.", "a.lock", "a.line", "a b", "a+b",
		"\U0010ffff", strings.Repeat("ü", election.NameBytesMax/2)} {
		for _, suffix := range []string{lockSuffix, lineSuffix} {
			blob := b.blobOf(name, suffix)
			if other, taken := seen[blob]; taken {
				t.Errorf("%q and %q share %s", name, other, blob)
			}
			seen[blob] = name
		}
		if back, ok := b.nameOf(b.blobOf(name, lockSuffix)); !ok || back != name {
			t.Errorf("%q comes back as %q", name, back)
		}
		if _, ok := b.nameOf(b.blobOf(name, lineSuffix)); ok {
			t.Errorf("the line of %q passes for a lock", name)
		}
	}
}

func TestTokenGrowsAlsoWhenTheClockWentBackOrTheBlobIsNew(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for _, test := range []struct{ last, want election.Token }{
		{0, 1_000_000}, {999_999, 1_000_000}, {1_000_000, 1_000_001}, {1 << 62, 1<<62 + 1},
	} {
		if got := (state{Token: test.last}).taken(aClaim(), now); got.Token != test.want || got.Nonce != aClaim().Nonce {
			t.Errorf("after %d: %+v", test.last, got)
		}
	}
}

func TestHistorySaysHowEachLeadershipEnded(t *testing.T) {
	at := time.UnixMilli(1_000_000).UTC()
	s := state{}.taken(aClaim(), at)
	s = s.released(election.ReasonResigned, at.Add(time.Second))
	if s.Nonce != "" || s.Holder != "" {
		t.Errorf("somebody holds it: %+v", s)
	}
	s = s.taken(aClaim(), at.Add(2*time.Second)) // and dies
	s = s.taken(aClaim(), at.Add(3*time.Second))
	if len(s.History) != 3 || s.History[0].Reason != "resigned" || s.History[1].Reason != "expired" ||
		!s.History[2].Until.IsZero() {
		t.Errorf("%+v", s.History)
	}
}

func TestPlaceInTheQueueGoesToTheHigherPriorityUnlessTheHolderHasChosen(t *testing.T) {
	me := election.Claim{ID: "me", Priority: 5}
	for _, test := range []struct {
		title string
		line  line
		want  bool
	}{
		{"a lower one", line{Next: &record.Next{ID: "x", Priority: 4}}, true},
		{"an equal one", line{Next: &record.Next{ID: "x", Priority: 5}}, false},
		{"a lower one that warms up", line{Next: &record.Next{ID: "x", State: record.StateNominated}}, false},
		{"I am wanted", line{Next: &record.Next{ID: "x", Priority: 9, State: record.StateReady}, Wanted: "me"}, true},
		{"another is wanted", line{Next: &record.Next{ID: "x"}, Wanted: "y"}, false},
		{"a namesake is wanted and there", line{Next: &record.Next{ID: "me"}, Wanted: "me"}, false},
	} {
		if got := test.line.yieldsTo(me); got != test.want {
			t.Errorf("%s: %v", test.title, got)
		}
	}
}

func TestSuccessorIsAliveAsLongAsItsHeartbeatChanges(t *testing.T) {
	var m mark
	next := record.Next{Nonce: "n", Heartbeat: 1, LeaseMs: 1000}
	at := func(s int) clock.Instant { return clock.Instant(0).Add(time.Duration(s) * time.Second / 2) }
	for _, step := range []struct {
		heartbeat uint64
		at        int
		want      bool
	}{{1, 0, true}, {1, 1, true}, {1, 2, false}, {2, 3, true}, {2, 4, true}, {2, 5, false}} {
		next.Heartbeat = step.heartbeat
		if got := m.alive(&next, at(step.at)); got != step.want {
			t.Errorf("heartbeat %d at %d: %v", step.heartbeat, step.at, got)
		}
	}
	if m.alive(nil, at(0)) {
		t.Error("nobody is alive")
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for _, o := range []Options{{Prefix: "/a"}, {Prefix: "a/"}, {Prefix: "a//b"}, {Poll: -1}} {
		if _, err := New(&container.Client{}, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("no client was taken")
	}
}

// TestQueueOfANewLeaderKeepsWhatIsAskedOfIt: its token is stored, and seen, before
// it tidies the queue up.
func TestQueueOfANewLeaderKeepsWhatIsAskedOfIt(t *testing.T) {
	for _, test := range []struct {
		asked election.Token
		kept  bool
	}{{6, false}, {7, true}} {
		l, err := line{Wanted: "x"}.asked(election.Request{Token: test.asked})
		if err != nil {
			t.Fatal(err)
		}
		l, changed := l.tidied("nonce", 7)
		if kept := l.Request != nil; kept != test.kept || !changed || l.Wanted != "" {
			t.Errorf("what is asked of token %d is kept by the leader with token 7: %v (%+v)", test.asked, kept, l)
		}
	}
	l, _ := line{}.asked(election.Request{Token: 7})
	if _, err := l.asked(election.Request{Token: 6}); !errors.Is(err, election.ErrNoLeader) {
		t.Errorf("a late request of the last leader replaced that of the present one: %v", err)
	}
	if _, changed := (line{}).tidied("nonce", 7); changed {
		t.Error("a tidy line is written again")
	}
}
