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
