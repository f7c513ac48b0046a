package lostupdate

import (
	"errors"
	"testing"
)

func TestJudgeSeesUpdatesThatAreNotInTheHistoryOfTheLast(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes []write
		lost   int
	}{
		{"nothing", nil, 0},
		{"a chain", []write{{"a", "-"}, {"b", "a"}, {"c", "b"}}, 0},
		{"one overwritten", []write{{"a", "-"}, {"b", "a"}, {"c", "a"}}, 1},
		{"all overwritten by one that read long before",
			[]write{{"a", "-"}, {"b", "a"}, {"c", "b"}, {"d", "c"}, {"z", "a"}}, 3},
		{"and built upon", []write{{"a", "-"}, {"b", "a"}, {"z", "-"}, {"y", "z"}}, 2},
		{"the first ones side by side", []write{{"a", "-"}, {"b", "-"}}, 1},
	} {
		if got, err := lost(c.writes); err != nil || got != c.lost {
			t.Errorf("%s: %d lost, %v; expected %d", c.name, got, err, c.lost)
		}
	}
	for _, bad := range [][]write{{{"a", "-"}, {"a", "a"}}, {{"a", "b"}, {"b", "-"}}} {
		if got, err := lost(bad); err == nil {
			t.Errorf("%v: %d lost and no error", bad, got)
		}
	}
}

// dialTwo returns the connections of an old and a new leader.
func dialTwo(t *testing.T) (s *Server, old, new *Worker) {
	t.Helper()
	s, err := Serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	old, err1 := Dial(s.Addr)
	new, err2 := Dial(s.Addr)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		old.Close()
		new.Close()
	})
	return s, old, new
}

// turns returns a function that returns true count times.
func turns(count int) func() bool {
	return func() bool {
		count--
		return count >= 0
	}
}

// TestZombieOverwritesWhatIsNotFenced replays the pause by hand: the old leader
// has read, the new one updates ten times, and then the old one writes.
func TestZombieOverwritesWhatIsNotFenced(t *testing.T) {
	s, old, new := dialTwo(t)
	if err := old.Lead(1, turns(2)); err != nil { // one loop, one check
		t.Fatal(err)
	}
	var read [3]string
	for i, name := range Registers {
		var err error
		if read[i], err = old.ask("read %s 1", name); err != nil {
			t.Fatal(err)
		}
	}
	if err := new.Lead(2, turns(20)); err != nil { // ten loops, ten checks
		t.Fatal(err)
	}
	for i, name := range Registers {
		_, err := old.ask("write %s 1 zombie %s", name, read[i][len("value "):])
		if stale := errors.Is(err, ErrStale); stale != (name == Fenced) || err != nil && !stale {
			t.Errorf("%s: %v", name, err)
		}
	}
	counts, err := s.Judge()
	if err != nil {
		t.Fatal(err)
	}
	if c := counts[Fenced]; c.Lost != 0 || c.Refused != 1 || c.Updates < 10 {
		t.Errorf("fenced: %+v", c)
	}
	for _, name := range []string{Naive, Checked} {
		if c := counts[name]; c.Lost != 10 || c.Refused != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestReadBarsTheOldLeader, whose write would otherwise come between the new
// leader's read and write.
func TestReadBarsTheOldLeader(t *testing.T) {
	s, old, new := dialTwo(t)
	if _, err := new.ask("read %s 2", Fenced); err != nil {
		t.Fatal(err)
	}
	if _, err := old.ask("write %s 1 zombie -", Fenced); !errors.Is(err, ErrStale) {
		t.Errorf("an old write after a new read: %v", err)
	}
	if counts, err := s.Judge(); err != nil || counts[Fenced] != (Count{0, 0, 1}) {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestRegisterRefusesWhatItDoesNotKnow(t *testing.T) {
	_, w, _ := dialTwo(t)
	for _, line := range []string{"read", "read none 1", "write naive 1 a", "read naive x", "erase naive 1"} {
		if answer, err := w.ask("%s", line); err == nil {
			t.Errorf("%q: %q", line, answer)
		}
	}
}
