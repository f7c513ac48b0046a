package lab

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// world returns a world that has run up to a time.
func world(t testing.TB, spec string, toMs int64) *World {
	t.Helper()
	parsed, err := ParseSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(parsed)
	if err != nil {
		t.Fatal(err)
	}
	w.Run(toMs * 1000)
	return w
}

// leaders returns the servers that consider themselves leader.
func (w *World) leaders() string {
	var ids []string
	for _, s := range w.Frame(0).Servers {
		if s.Leads {
			ids = append(ids, s.ID)
		}
	}
	return strings.Join(ids, " ")
}

// text returns everything that can be seen of a world.
func text(t testing.TB, w *World) string {
	t.Helper()
	b, err := json.Marshal(w.Frame(0))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (w *World) story() string {
	var b strings.Builder
	for _, e := range w.notes {
		fmt.Fprintf(&b, "%9.1f ms %-3s %s: %s\n", float64(e.AtUs)/1000, e.Server, e.Kind, e.Text)
	}
	return b.String()
}

func TestEachAlgorithmElectsAndElectsAgain(t *testing.T) {
	for _, name := range Algorithms() {
		for servers := ServersMin; servers <= ServersMax; servers += 2 {
			t.Run(fmt.Sprint(name, servers), func(t *testing.T) {
				w := world(t, fmt.Sprintf("alg=%s&servers=%d&seed=3", name, servers), 15_000)
				first := w.leaders()
				if first == "" || strings.Contains(first, " ") {
					t.Fatalf("leaders after 15 s: %q\n%s", first, w.story())
				}
				if err := w.Do("kill", first); err != nil {
					t.Fatal(err)
				}
				w.Run(45_000_000)
				if second := w.leaders(); second == "" || second == first || strings.Contains(second, " ") {
					t.Fatalf("leaders after %s has died: %q\n%s", first, second, w.story())
				}
			})
		}
	}
}

// TestPromisedRulesHoldUnderFaults: random actions never break a promised rule, and
// afterwards a server leads again.
func TestPromisedRulesHoldUnderFaults(t *testing.T) {
	for _, name := range Algorithms() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				w := world(t, fmt.Sprintf("alg=%s&servers=%d&seed=%d", name, 3+seed%4, seed), 2000)
				harass(w, seed)
				for _, r := range w.rules {
					if r.Promised && r.Broken != "" {
						t.Fatalf("seed %d: %s: %s\n%s\n%s", seed, r.ID, r.Broken, w.Spec(), w.story())
					}
				}
				if leaders := w.leaders(); leaders == "" || strings.Contains(leaders, " ") {
					t.Fatalf("seed %d: leaders in the end: %q\n%s\n%s", seed, leaders, w.Spec(), w.story())
				}
			}
		})
	}
}

// harass does random user actions, and then repairs everything.
func harass(w *World, seed uint64) {
	r := random{seed + 77}
	anybody := func() string { return w.servers[r.between(0, int64(len(w.servers))-1)].id }
	for range 40 {
		w.Run(w.NowUs() + r.between(1, 1_500_000))
		a, b := anybody(), anybody()
		_ = []func() error{ // actions that are not possible now are refused
			func() error { return w.Do("kill", a) },
			func() error { return w.Do("start", a) },
			func() error { return w.Do("start", b) },
			func() error { return w.Do("pause", a) },
			func() error { return w.Do("resume", a) },
			func() error { return w.Do("cut", a, b) },
			func() error { return w.Do("healall") },
			func() error { return w.Do("part", a+"."+b) },
			func() error { return w.Do("clock", a, fmt.Sprint(r.between(-40_000, 40_000))) },
			func() error { return w.Do("dropnext", a, b) },
			func() error { return w.Do("repeatnext", a, b) },
			func() error { return w.Do("delaynext", a, b, "2500") },
			func() error { return w.Do("write", a, fmt.Sprint("v", w.sent)) },
			func() error { return w.Do("full", a) },
			func() error { return w.Do("reconfig", a, a+"."+b) },
			func() error { return w.Do("reconfig", a, a+"."+b+"."+anybody()) },
			func() error { return w.Do("space", a) },
			func() error { return w.Do("transfer", a, b) },
			func() error { return w.Do("resign", a) },
			func() error { return w.Do("drop", fmt.Sprint(w.sent)) },
		}[r.between(0, 19)]()
	}
	_ = w.Do("healall")
	for _, s := range w.servers {
		_, _, _ = w.Do("start", s.id), w.Do("resume", s.id), w.Do("clock", s.id, "0")
		_ = w.Do("space", s.id)
	}
	w.Run(w.NowUs() + 60_000_000)
}

// TestRunIsAValueOfItsSpec (lab-B1): what users did live and the replay from a URL are
// identical to the last byte.
func TestRunIsAValueOfItsSpec(t *testing.T) {
	for _, name := range Algorithms() {
		for seed := range uint64(10) {
			live := world(t, fmt.Sprintf("alg=%s&servers=5&seed=%d", name, seed), 1500)
			harass(live, seed)
			again := world(t, live.Spec().String(), live.NowUs()/1000)
			again.Run(live.NowUs())
			if a, b := text(t, live), text(t, again); a != b {
				t.Fatalf("%s, seed %d: a repeated run differs\n%s\n%s", name, seed, a, b)
			}
		}
	}
}

// TestVotesAreShownUntilThereIsALeader: the vote of each server, the votes that it has
// received, and in the end the servers that elected the leader.
func TestVotesAreShownUntilThereIsALeader(t *testing.T) {
	most, w := 0, world(t, "alg=zab&servers=3", 0)
	for w.leaders() == "" && w.NowUs() < 5_000_000 {
		w.Step()
		for _, s := range w.Frame(0).Servers {
			if looks := s.Role == "looking"; looks != (s.Vote != "") {
				t.Fatalf("%s is %s and votes for %q", s.ID, s.Role, s.Vote)
			}
			for _, b := range s.Votes {
				if b.From == s.ID && b.For != s.Vote {
					t.Errorf("%s votes for %s, and has its own vote for %s", s.ID, s.Vote, b.For)
				}
			}
			most = max(most, len(s.Votes))
			if shown := strings.Count(fmt.Sprint(s.Fields), " (for s"); shown != len(s.Votes) {
				t.Errorf("%d of %d votes are among the fields %v", shown, len(s.Votes), s.Fields)
			}
		}
	}
	if most != 3 {
		t.Errorf("a server had %d votes at most", most)
	}
	if story := w.story(); !strings.Contains(story, "has elected s3 in round 1: for it are s1, s2, s3") {
		t.Error(story)
	}
	for _, spec := range []string{"alg=raft&servers=3&seed=5", "alg=bully&servers=3"} {
		voted, w := false, world(t, spec, 0)
		for w.leaders() == "" && w.NowUs() < 5_000_000 {
			w.Step()
			for _, s := range w.Frame(0).Servers {
				voted = voted || s.Vote != ""
			}
		}
		if votes := strings.HasPrefix(spec, "alg=raft"); voted != votes {
			t.Errorf("%s: a server votes: %v", spec, voted)
		}
	}
}

// TestStepsEndWithTheRun: an action after the last step must be in a URL that can be
// opened.
func TestStepsEndWithTheRun(t *testing.T) {
	w := world(t, "alg=raft&servers=3", EndUs/1000-1)
	for range 20 {
		w.Step()
	}
	if err := w.Do("kill", "s1"); err != nil {
		t.Fatal(err)
	}
	if _, err := ParseSpec(w.Spec().String()); err != nil || w.NowUs() != EndUs {
		t.Errorf("at %d us: %v", w.NowUs(), err)
	}
}

func TestTimesHaveNoSign(t *testing.T) {
	for _, at := range []string{"-1", "+1", "-0", "1.-5", "1.+5", ".5", "600000.5000"} {
		if spec, err := ParseSpec("do=" + strings.ReplaceAll(at, "+", "%2B") + ":kill:s1"); err == nil {
			t.Errorf("%s is %s", at, spec)
		}
	}
	if spec, err := ParseSpec("do=1.5:kill:s1"); err != nil || spec.Actions[0].AtUs != 1500 {
		t.Errorf("%+v, %v", spec, err)
	}
}
