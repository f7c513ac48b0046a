package quorum

import (
	"math/rand"
	"testing"
)

// draw makes a random configuration, as a set and as plain voters.
func draw(t *testing.T, r *rand.Rand) (Set, func(in map[ID]bool) bool) {
	t.Helper()
	voters := make([]Voter, r.Intn(8))
	for i := range voters {
		voters[i] = Voter{ID: ID(i*3 - 4), Weight: int64(r.Intn(4)), Group: int64(r.Intn(4) - 1)}
	}
	r.Shuffle(len(voters), func(i, k int) { voters[i], voters[k] = voters[k], voters[i] })
	switch r.Intn(3) {
	case 0:
		var ids []ID
		for i := range voters {
			voters[i].Weight, voters[i].Group = 1, 0
			ids = append(ids, voters[i].ID)
		}
		return NewMajority(ids...), naive(voters)
	case 1:
		for i := range voters {
			voters[i].Group = 0
		}
		w, err := NewWeighted(voters...)
		if err != nil {
			t.Fatal(err)
		}
		return w, naive(voters)
	}
	h, err := NewHierarchical(voters...)
	if err != nil {
		t.Fatal(err)
	}
	return h, naive(voters)
}

// naive is the definition, written down: a group with weight counts if those
// inside weigh more than those outside; a quorum has more groups that count
// than groups that do not.
func naive(voters []Voter) func(in map[ID]bool) bool {
	return func(in map[ID]bool) bool {
		inside, outside := make(map[int64]int64), make(map[int64]int64)
		for _, v := range voters {
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

func subsets(voters IDs, visit func(IDs)) {
	for bits := range 1 << len(voters) {
		var s IDs
		for i, id := range voters {
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
		subsets(set.Voters(), func(s IDs) {
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

func TestTwoQuorumsShareAVoter(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 300 {
		current, _ := draw(t, r)
		next, _ := draw(t, r)
		joint := NewJoint(current, next)
		var quorums []IDs
		subsets(joint.Voters(), func(s IDs) {
			if !joint.Enough(s) {
				return
			}
			if !current.Enough(s) || !next.Enough(s) {
				t.Fatalf("%v is a quorum of both only", s)
			}
			quorums = append(quorums, s)
		})
		for _, half := range []Set{current, next, joint} {
			subsets(half.Voters(), func(other IDs) {
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
		subsets(set.Voters(), func(s IDs) {
			if !set.Enough(s) {
				return
			}
			for _, id := range set.Voters() {
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
		Voter{1, 1, 1}, Voter{2, 1, 1}, Voter{3, 1, 1},
		Voter{4, 1, 2}, Voter{5, 1, 2}, Voter{6, 1, 2},
		Voter{7, 0, 3}, Voter{8, 0, 3}, Voter{9, 0, 3})
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
	if h.Weight(7) != 0 || h.Weight(1) != 1 || !h.Voters().Has(7) || h.Weight(99) != 0 {
		t.Error("weights differ")
	}
}

func TestConfigurationsThatCannotBeCountedAreRefused(t *testing.T) {
	for name, voters := range map[string][]Voter{
		"named twice":     {{1, 1, 1}, {1, 1, 2}},
		"negative weight": {{1, -1, 1}},
		"huge weight":     {{1, WeightMax + 1, 1}},
		"too many":        make([]Voter, VotersMax+1),
	} {
		if _, err := NewHierarchical(voters...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAJointWithoutANextIsTheCurrent(t *testing.T) {
	m := NewMajority(1, 2, 3)
	if set := NewJoint(m, nil); !set.Enough(MakeIDs(1, 2)) || len(set.Voters()) != 3 {
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
	if s.Add(3) || !s.Add(4) || !s.Remove(-1) || s.Remove(-1) || len(s) != 3 {
		t.Fatalf("%v", s)
	}
}
