package quorum

import (
	"fmt"
	"slices"
)

// WeightMax is the largest weight of one server. With at most ParticipantsMax servers no sum
// can overflow.
const WeightMax = 1 << 40

// ParticipantsMax is the largest number of participants in one configuration.
const ParticipantsMax = 1 << 16

// Participant is one participant of a configuration with weights.
type Participant struct {
	ID ID
	// Weight is 0 to WeightMax: "weight.N" in the configuration, 1 if that is missing.
	Weight int64
	// Group is G of "group.G"; Weighted ignores it.
	Group int64
}

// Weighted demands more than half of all weight. It is one group of a Hierarchical, or a whole
// ensemble without groups.
type Weighted struct {
	participants IDs
	weights      []int64 // parallel to participants
	total        int64
}

// NewWeighted returns the rule for these participants. It refuses a participant named
// twice and weights out of range.
func NewWeighted(participants ...Participant) (Weighted, error) {
	var w Weighted
	if len(participants) > ParticipantsMax {
		return w, fmt.Errorf("quorum: %d participants are more than %d", len(participants), ParticipantsMax)
	}
	sorted := slices.Clone(participants)
	slices.SortFunc(sorted, func(a, b Participant) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	for i, v := range sorted {
		if i > 0 && sorted[i-1].ID == v.ID {
			return w, fmt.Errorf("quorum: server %d is named twice", v.ID)
		}
		if v.Weight < 0 || v.Weight > WeightMax {
			return w, fmt.Errorf("quorum: weight %d of server %d is not in 0 to %d", v.Weight, v.ID, int64(WeightMax))
		}
		w.participants = append(w.participants, v.ID)
		w.weights = append(w.weights, v.Weight)
		w.total += v.Weight
	}
	return w, nil
}

// Enough implements Set.
func (w Weighted) Enough(servers IDs) bool {
	var sum int64
	for _, id := range servers {
		sum += w.Weight(id)
	}
	return sum > w.total/2
}

// Participants implements Set.
func (w Weighted) Participants() IDs { return w.participants }

// Weight implements Set.
func (w Weighted) Weight(id ID) int64 {
	if at, found := slices.BinarySearch(w.participants, id); found {
		return w.weights[at]
	}
	return 0
}
