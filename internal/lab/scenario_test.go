package lab

import (
	"slices"
	"strings"
	"testing"
)

// TestScenariosEndAsTheirTextsSay runs each scenario to its end, in one go and step by
// step.
func TestScenariosEndAsTheirTextsSay(t *testing.T) {
	all, err := Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			w := world(t, s.Spec, s.UntilMs)
			for _, claim := range s.Ends {
				if !w.Holds(claim) {
					t.Errorf("not so in the end: %s\n%s", claim, w.story())
				}
			}
			stepped := world(t, s.Spec, 0)
			for stepped.NowUs() < s.UntilMs*1000 {
				before := stepped.NowUs()
				stepped.Step()
				if stepped.NowUs() == before && stepped.NowUs() != 0 {
					break // nothing happens any more
				}
			}
			again := world(t, s.Spec, 0)
			again.Run(stepped.NowUs())
			if a, b := text(t, stepped), text(t, again); a != b {
				t.Error("a run in steps differs from one in one go")
			}
		})
	}
}

// TestScenariosCanBeFollowed: each scenario has captions in both languages from the
// beginning on, in order, and claims to check.
func TestScenariosCanBeFollowed(t *testing.T) {
	all, err := Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	files, err := scenarioFiles.ReadDir("scenarios")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(scenarioOrder) {
		t.Errorf("%d files, %d are listed", len(files), len(scenarioOrder))
	}
	for _, s := range all {
		texts := []Text{s.Title}
		for _, c := range s.Captions {
			texts = append(texts, c.Text)
		}
		for _, text := range texts {
			if text.English == "" || text.Chinese == "" {
				t.Errorf("%s: a text is missing in a language: %+v", s.Name, text)
			}
		}
		inOrder := slices.IsSortedFunc(s.Captions, func(a, b Caption) int { return int(a.AtMs - b.AtMs) })
		if len(s.Captions) < 3 || s.Captions[0].AtMs != 0 || !inOrder || s.Captions[len(s.Captions)-1].AtMs >= s.UntilMs || len(s.Ends) == 0 {
			t.Errorf("%s cannot be followed", s.Name)
		}
	}
}

func TestSpecsThatMakeNoWorldAreRefused(t *testing.T) {
	for _, test := range []struct{ spec, want string }{
		{"nothing", `a run has no key "nothing"`},
		{"alg=paxos", "choose from bully, lease"},
		{"servers=2", "must be 3 to 9"},
		{"servers=x", "is not a number"},
		{"seed=-1", "is not a number of 0 or more"},
		{"do=kill", "write TIME:VERB"},
		{"do=x:kill:s1", "its time must be 0 to"},
		{"do=1.2345:kill:s1", "three digits"},
		{"do=601000:kill:s1", "0 to 600000"},
		{"do=200:kill:s1,100:kill:s2", "not in the order"},
		{"do=" + strings.Repeat("1:healall,", ActionsMax) + "1:healall", "at most 500"},
		{"do=1:write:s1:a b", "a part of an action has"},
		{"%zz", "not a run of the laboratory"},
	} {
		if _, err := ParseSpec(test.spec); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40s: %v, want %q", test.spec, err, test.want)
		}
	}
}

// TestActionsThatCannotBeDoneChangeNothing: such actions are refused with the reason, and
// do not become part of the spec.
func TestActionsThatCannotBeDoneChangeNothing(t *testing.T) {
	w := world(t, "alg=zab&servers=3", 3000)
	before := text(t, w)
	for _, test := range [][]string{{"kill"}, {"kill", "s9"}, {"start", "s1"}, {"resume", "s1"}, {"wipe", "s1"}, {"cut", "s1", "s1"},
		{"dance"}, {"clock", "s1", "200000"}, {"drop", "1"}, {"drop", "x"}, {"delay", "1", "0"}, {"part", "s1.s7"},
		{"write", "s1"}, {"write", "s1", strings.Repeat("x", 41)}, {"full"}, {"dropnext", "s1", "s1"}, {"delaynext", "s1", "s2", "-5"}} {
		if err := w.Do(test[0], test[1:]...); err == nil {
			t.Errorf("%q is done", test)
		}
	}
	if after := text(t, w); after != before {
		t.Errorf("the world has changed:\n%s\n%s", before, after)
	}
}

// TestEditDropsWhatWasPlannedForLater: after a change at some time, the run consists of its
// past and the change.
func TestEditDropsWhatWasPlannedForLater(t *testing.T) {
	w := world(t, "do=1000:pause:s1,5000:kill:s2", 2000)
	if err := w.Do("resume", "s1"); err != nil {
		t.Fatal(err)
	}
	if got, want := w.Spec().String(), "alg=raft&servers=5&seed=1&do=1000:pause:s1,2000:resume:s1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// FuzzSpec: every text in a URL yields a world or an error, and a spec's text is parsed as
// the same spec.
func FuzzSpec(f *testing.F) {
	f.Add("alg=zab&servers=3&do=100:write:s1:a,200.5:cut:s1:s2,300:delaynext:s1:s2:50")
	f.Add("alg=lease&servers=3&do=100:kill:store,5000:wipe:store,6000:start:store,7000:transfer:c1:c2")
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseSpec(text)
		if err != nil {
			return
		}
		again, err := ParseSpec(spec.String())
		if err != nil || again.String() != spec.String() {
			t.Fatalf("%q is read as %q: %v", spec, again, err)
		}
		w, err := New(spec)
		if err != nil {
			t.Fatal(err)
		}
		w.Run(10_000_000)
		w.Frame(0)
	})
}
