package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/zk"
)

func shown(paths ...string) map[string]bool {
	m := map[string]bool{}
	for _, path := range paths {
		m[path] = true
	}
	return m
}

func anywhere(string) bool { return true }

func TestALedgerMissesWhatWasAcknowledgedAndKnowsWhatWasNot(t *testing.T) {
	l := NewLedger()
	l.Created("/a", 1)
	l.Created("/b", 2)
	l.Deleted("/b")
	l.Unknown("/c")
	for _, one := range []struct {
		shown map[string]bool
		want  string
	}{
		{shown("/a"), ""},
		{shown("/a", "/c"), ""},
		{shown("/c"), "acknowledged and lost: /a"},
		{shown("/a", "/b"), "never written: /b"},
		{shown("/a", "/d"), "never written: /d"},
	} {
		got := strings.Join(l.Check("s", one.shown, anywhere), "; ")
		if one.want == "" && got != "" || !strings.Contains(got, one.want) {
			t.Errorf("%v: %q, expected %q", one.shown, got, one.want)
		}
	}
	if breaches := l.Breaches(); len(breaches) != 0 {
		t.Errorf("breaches %q", breaches)
	}
}

func TestAZxidThatIsAcknowledgedTwiceIsABreach(t *testing.T) {
	l := NewLedger()
	l.Created("/a", 7)
	l.Wrote("/r", 7)
	if breaches := l.Breaches(); len(breaches) != 1 || !strings.Contains(breaches[0], "0x7") {
		t.Errorf("breaches %q", breaches)
	}
}

func TestTreesDifferInStatsDataAndZnodes(t *testing.T) {
	same := Znode{Data: []byte("x"), Stat: zk.Stat{Czxid: 1}}
	one := Tree{"/a": same, "/b": same, "/c": same, "/d": same}
	other := Tree{"/a": same, "/b": {Data: []byte("y"), Stat: same.Stat}, "/c": {Data: same.Data, Stat: zk.Stat{Czxid: 2}}, "/e": same}
	got := strings.Join(Differences("one", "other", one, other), "; ")
	for _, want := range []string{"differ in 4 znodes", "/b (data)", "/c (", "/d (missing in other)", "/e (missing in one)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if got := Differences("one", "one", one, one); got != nil {
		t.Errorf("a tree differs from itself: %q", got)
	}
}

func TestTheLongestGapIsThatBetweenNeighbours(t *testing.T) {
	start := time.Now()
	w := &writer{}
	for _, ms := range []int{0, 30, 40, 90} {
		w.times = append(w.times, start.Add(time.Duration(ms)*time.Millisecond))
	}
	l := &Load{writers: []*writer{w}}
	if gap := l.GapSince(start); gap != 50*time.Millisecond {
		t.Errorf("longest gap %v", gap)
	}
	w.times = w.times[:3]
	if gap := l.GapSince(start.Add(20 * time.Millisecond)); gap != 30*time.Millisecond {
		t.Errorf("a gap that ends later counts whole: %v", gap)
	}
}

func TestAStaleReadAndAStepBackInTimeAreBreaches(t *testing.T) {
	for _, one := range []struct {
		name    string
		sights  []sight
		allowed bool
		want    string
	}{
		{"as new as the sync", []sight{{count: 3, before: 3, same: true}}, false, ""},
		{"newer", []sight{{count: 4, before: 3, same: true}}, false, ""},
		{"stale", []sight{{count: 2, before: 3, same: true}}, false, "3 was acknowledged before"},
		{"stale where that is allowed", []sight{{count: 2, before: 3, same: true}}, true, ""},
		{"another server", []sight{{count: 2, before: 3}}, false, ""},
		{"back in time", []sight{{count: 5, before: 3, same: true}, {count: 4, before: 3, same: true}}, false, "the session had seen 5"},
		{"back in time at another server", []sight{{count: 5, before: 3, same: true}, {count: 4, before: 3}}, true, "the session had seen 5"},
	} {
		l := &Load{Ledger: NewLedger(), options: Options{StaleAllowed: one.allowed}}
		r := &reader{load: l, seen: map[int]int64{}}
		for _, s := range one.sights {
			r.saw(0, s)
		}
		got := strings.Join(l.Ledger.Breaches(), "; ")
		if one.want == "" && got != "" || !strings.Contains(got, one.want) {
			t.Errorf("%s: %q, expected %q", one.name, got, one.want)
		}
	}
}

func TestAZxidThatFallsWithinASessionIsABreach(t *testing.T) {
	l := &Load{Ledger: NewLedger()}
	w := &writer{load: l}
	w.ack(5)
	w.ack(6)
	w.ack(0) // the answer to a delete has no zxid
	if got := l.Ledger.Breaches(); len(got) != 0 {
		t.Errorf("breaches %q", got)
	}
	w.ack(6)
	if got := l.Ledger.Breaches(); len(got) != 1 {
		t.Errorf("breaches %q", got)
	}
}
