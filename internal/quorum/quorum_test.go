package quorum

import (
	"math/rand"
	"slices"
	"testing"
)

// draw makes a random configuration, as a set and as plain participants.
func draw(t *testing.T, r *rand.Rand) (Set, func(in map[ID]bool) bool) {
	t.Helper()
	participants := make([]Participant, r.Intn(8))
	for i := range participants {
		participants[i] = Participant{ID: ID(i*3 - 4), Weight: int64(r.Intn(4)), Group: int64(r.Intn(4) - 1)}
	}
	r.Shuffle(len(participants), func(i, k int) { participants[i], participants[k] = participants[k], participants[i] })
	switch r.Intn(3) {
	case 0:
		var ids []ID
		for i := range participants {
			participants[i].Weight, participants[i].Group = 1, 0
			ids = append(ids, participants[i].ID)
		}
		return NewMajority(ids...), naive(participants)
	case 1:
		for i := range participants {
			participants[i].Group = 0
		}
		w, err := NewWeighted(participants...)
		if err != nil {
			t.Fatal(err)
		}
		return w, naive(participants)
	}
	h, err := NewHierarchical(participants...)
	if err != nil {
		t.Fatal(err)
	}
	return h, naive(participants)
}

// naive is the definition, written down: a group with weight counts if its members inside weigh
// more than those outside; a quorum has more groups that count than groups that do not.
func naive(participants []Participant) func(in map[ID]bool) bool {
	return func(in map[ID]bool) bool {
		inside, outside := make(map[int64]int64), make(map[int64]int64)
		for _, v := range participants {
			if in[v.ID] {
				inside[v.Group] += v.Weight
			} else {
				outside[v.Group] += v.Weight
			}
		}
		won, lost := 0, 0
		for group := int64(-1); group < 4; group++ {
			switch {
			case inside[group]+outside[group] == 0:
			case inside[group] > outside[group]:
				won++
			default:
				lost++
			}
		}
		return won > lost
	}
}

func subsets(participants IDs, visit func(IDs)) {
	for bits := range 1 << len(participants) {
		var s IDs
		for i, id := range participants {
			if bits>>i&1 == 1 {
				s.Add(id)
			}
		}
		visit(s)
	}
}

func TestQuorumsAreThoseOfTheNaiveForm(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 2000 {
		set, want := draw(t, r)
		subsets(set.Participants(), func(s IDs) {
			in := make(map[ID]bool)
			for _, id := range s {
				in[id] = true
			}
			if got := set.Enough(s); got != want(in) {
				t.Fatalf("%+v: %v is %v", set, s, got)
			}
			stranger := append(IDs(nil), s...)
			stranger.Add(1000)
			if set.Enough(stranger) != set.Enough(s) {
				t.Fatalf("Q3: %+v: %v changes with a server that does not vote", set, s)
			}
		})
		if set.Enough(nil) {
			t.Fatalf("Q4: nobody is a quorum of %+v", set)
		}
	}
}

func TestTwoQuorumsShareAParticipant(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 300 {
		current, _ := draw(t, r)
		next, _ := draw(t, r)
		joint := NewJoint(current, next)
		var quorums []IDs
		subsets(joint.Participants(), func(s IDs) {
			if !joint.Enough(s) {
				return
			}
			if !current.Enough(s) || !next.Enough(s) {
				t.Fatalf("%v is a quorum of both only", s)
			}
			quorums = append(quorums, s)
		})
		for _, half := range []Set{current, next, joint} {
			subsets(half.Participants(), func(other IDs) {
				if !half.Enough(other) {
					return
				}
				for _, q := range quorums {
					if !share(q, other) {
						t.Fatalf("Q1: %v and %v are apart", q, other)
					}
				}
			})
		}
	}
}

func share(a, b IDs) bool {
	for _, id := range a {
		if b.Has(id) {
			return true
		}
	}
	return false
}

func TestAQuorumStaysOneWhenServersJoinIt(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for range 500 {
		set, _ := draw(t, r)
		subsets(set.Participants(), func(s IDs) {
			if !set.Enough(s) {
				return
			}
			for _, id := range set.Participants() {
				more := append(IDs(nil), s...)
				more.Add(id)
				if !set.Enough(more) {
					t.Fatalf("Q2: %+v: %v with %d is no quorum", set, s, id)
				}
			}
		})
	}
}

// Three data centers; the third follows without weight.
func TestGroupsWithoutWeightDecideNothing(t *testing.T) {
	h, err := NewHierarchical(
		Participant{1, 1, 1}, Participant{2, 1, 1}, Participant{3, 1, 1},
		Participant{4, 1, 2}, Participant{5, 1, 2}, Participant{6, 1, 2},
		Participant{7, 0, 3}, Participant{8, 0, 3}, Participant{9, 0, 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		servers IDs
		want    bool
	}{
		{MakeIDs(1, 2, 4, 5), true},
		{MakeIDs(1, 2, 3, 4, 7, 8, 9), false},
		{MakeIDs(1, 2, 7, 8, 9), false},
		{MakeIDs(7, 8, 9), false},
		{MakeIDs(5, 6, 3, 1), true},
	} {
		if got := h.Enough(c.servers); got != c.want {
			t.Errorf("%v: %v", c.servers, got)
		}
	}
	if h.Weight(7) != 0 || h.Weight(1) != 1 || !h.Participants().Has(7) || h.Weight(99) != 0 {
		t.Error("weights differ")
	}
}

func TestConfigurationsThatCannotBeCountedAreRefused(t *testing.T) {
	for name, participants := range map[string][]Participant{
		"named twice":     {{1, 1, 1}, {1, 1, 2}},
		"negative weight": {{1, -1, 1}},
		"huge weight":     {{1, WeightMax + 1, 1}},
		"too many":        numbered(ParticipantsMax + 1),
	} {
		if _, err := NewHierarchical(participants...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := NewWeighted(numbered(ParticipantsMax)...); err != nil {
		t.Errorf("as many participants with as much weight as there may be: %v", err)
	}
	if _, err := NewWeighted(numbered(ParticipantsMax + 1)...); err == nil {
		t.Error("one participant too many: accepted")
	}
}

// numbered returns n participants with the highest weight.
func numbered(n int) []Participant {
	all := make([]Participant, n)
	for i := range all {
		all[i] = Participant{ID: ID(i + 1), Weight: WeightMax, Group: 1}
	}
	return all
}

func TestAJointWithoutANextIsTheCurrent(t *testing.T) {
	m := NewMajority(1, 2, 3)
	if set := NewJoint(m, nil); !set.Enough(MakeIDs(1, 2)) || len(set.Participants()) != 3 {
		t.Fatal("differs")
	}
	j := NewJoint(m, NewMajority(3, 4, 5))
	if j.Weight(1) != 1 || j.Weight(5) != 1 || j.Weight(6) != 0 {
		t.Fatal("weights differ")
	}
}

func TestSetsKeepTheirOrder(t *testing.T) {
	s := MakeIDs(5, -1, 5, 3)
	if len(s) != 3 || s[0] != -1 || s[2] != 5 || !s.Has(3) || s.Has(4) {
		t.Fatalf("%v", s)
	}
	if s.Add(3) || !s.Add(4) || !s.Remove(-1) || s.Remove(-1) || !slices.Equal(s, IDs{3, 4, 5}) {
		t.Fatalf("%v", s)
	}
}

// A server that only a configuration learned from others contains may have to lead, and
// therefore has its weight. Nothing needs it.
func TestServerOfALearnedConfigurationHasItsWeight(t *testing.T) {
	w := NewWidened(NewMajority(1, 2), NewMajority(2, 3))
	for id, want := range map[ID]int64{1: 1, 2: 1, 3: 1, 4: 0} {
		if got := w.Weight(id); got != want {
			t.Errorf("server %d has the weight %d", id, got)
		}
	}
	if !w.Enough(MakeIDs(1, 2)) || w.Enough(MakeIDs(2, 3)) {
		t.Error("the quorum is not that of the configuration in force")
	}
}
