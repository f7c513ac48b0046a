package quorum

import "slices"

// Hierarchical demands more than half of the weight in more than half of the groups. Groups
// without weight do not count: they are data centers that follow but decide nothing.
//
// quorum-Q1 holds because two majorities of groups share a group, and in that group two
// majorities of weight share a participant.
type Hierarchical struct {
	all    Weighted
	groups []Weighted // the groups with weight
}

// NewHierarchical returns the rule for these participants and their groups. It refuses what
// NewWeighted refuses, so no server is in two groups.
func NewHierarchical(participants ...Participant) (Hierarchical, error) {
	all, err := NewWeighted(participants...)
	if err != nil {
		return Hierarchical{}, err
	}
	h := Hierarchical{all: all}
	members := make(map[int64][]Participant)
	var order []int64
	for _, v := range participants {
		if members[v.Group] == nil {
			order = append(order, v.Group)
		}
		members[v.Group] = append(members[v.Group], v)
	}
	slices.Sort(order)
	for _, number := range order {
		group, err := NewWeighted(members[number]...)
		if err != nil {
			return Hierarchical{}, err
		}
		if group.total > 0 {
			h.groups = append(h.groups, group)
		}
	}
	return h, nil
}

// Enough implements Set.
func (h Hierarchical) Enough(servers IDs) bool {
	count := 0
	for _, group := range h.groups {
		if group.Enough(servers) {
			count++
		}
	}
	return count > len(h.groups)/2
}

// Participants implements Set.
func (h Hierarchical) Participants() IDs { return h.all.participants }

// Weight implements Set.
func (h Hierarchical) Weight(id ID) int64 { return h.all.Weight(id) }
