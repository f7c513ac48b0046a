package quorum

// Joint is enough when the set is a quorum of the configuration in force and
// also of the one that is to follow. While a change of the ensemble is under
// way, everything from its proposal on needs both, so that neither the old nor
// the new ensemble can decide without the other.
type Joint struct {
	current, next Set
	voters        IDs
}

// NewJoint joins two configurations. Without a next one it returns current.
func NewJoint(current, next Set) Set {
	if next == nil {
		return current
	}
	both := append(append(IDs(nil), current.Voters()...), next.Voters()...)
	return Joint{current, next, MakeIDs(both...)}
}

// Enough implements Set.
func (j Joint) Enough(servers IDs) bool {
	return j.current.Enough(servers) && j.next.Enough(servers)
}

// Voters implements Set: who votes in either.
func (j Joint) Voters() IDs { return j.voters }

// Weight implements Set: the weight in the configuration in force, or, of a
// server that only the next one has, the weight there.
func (j Joint) Weight(id ID) int64 {
	if j.current.Voters().Has(id) {
		return j.current.Weight(id)
	}
	return j.next.Weight(id)
}
