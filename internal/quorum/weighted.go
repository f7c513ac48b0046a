package quorum

import (
	"fmt"
	"slices"
)

// WeightMax is the largest weight of one server. With at most VotersMax of them
// no sum can overflow.
const WeightMax = 1 << 40

// VotersMax is the largest number of voters in one configuration.
const VotersMax = 1 << 16

// Voter is one voter of a configuration with weights.
type Voter struct {
	ID ID
	// Weight is 0 to WeightMax; "weight.N" in the configuration, 1 without it.
	Weight int64
	// Group is G of "group.G"; of no meaning to Weighted.
	Group int64
}

// Weighted is enough when the set has more than half of all weight. It is one
// group of a Hierarchical, or the whole of an ensemble without groups.
type Weighted struct {
	voters  IDs
	weights []int64 // parallel to voters
	total   int64
}

// NewWeighted returns the rule for these voters. It refuses a voter named
// twice and weights out of range.
func NewWeighted(voters ...Voter) (Weighted, error) {
	var w Weighted
	if len(voters) > VotersMax {
		return w, fmt.Errorf("quorum: %d voters are more than %d", len(voters), VotersMax)
	}
	sorted := slices.Clone(voters)
	slices.SortFunc(sorted, func(a, b Voter) int {
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
		w.voters = append(w.voters, v.ID)
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

// Voters implements Set.
func (w Weighted) Voters() IDs { return w.voters }

// Weight implements Set.
func (w Weighted) Weight(id ID) int64 {
	if at, found := slices.BinarySearch(w.voters, id); found {
		return w.weights[at]
	}
	return 0
}
