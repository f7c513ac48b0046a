package quorum

// A Set decides which servers are enough in one configuration of the ensemble. It does not
// change and may be shared.
type Set interface {
	// Enough reports whether the servers form a quorum (quorum-Q1 to quorum-Q4).
	Enough(servers IDs) bool
	// Participants returns the servers that vote. The caller must not change it.
	Participants() IDs
	// Weight returns what the vote of a server is worth: 0 if it does not vote.
	// A server without weight may vote, but not lead.
	Weight(id ID) int64
}

// Majority demands more than half of the participants.
type Majority struct{ participants IDs }

// NewMajority returns the majority rule for these participants, each of weight 1.
func NewMajority(participants ...ID) Majority { return Majority{MakeIDs(participants...)} }

// Enough implements Set.
func (m Majority) Enough(servers IDs) bool {
	count := 0
	for _, id := range servers {
		if m.participants.Has(id) {
			count++
		}
	}
	return count > len(m.participants)/2
}

// Participants implements Set.
func (m Majority) Participants() IDs { return m.participants }

// Weight implements Set.
func (m Majority) Weight(id ID) int64 {
	if m.participants.Has(id) {
		return 1
	}
	return 0
}
