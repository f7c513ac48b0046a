package quorum

// Joint is enough when the set is a quorum of the configuration in force and
// also of the one that is to follow. While a change of the ensemble is under
// way, everything from its proposal on needs both, so that neither the old nor
// the new ensemble can decide without the other.
type Joint struct {
	current, next Set
	participants  IDs
}

// NewJoint joins two configurations. Without a next one it returns current.
func NewJoint(current, next Set) Set {
	if next == nil {
		return current
	}
	both := append(append(IDs(nil), current.Participants()...), next.Participants()...)
	return Joint{current, next, MakeIDs(both...)}
}

// Widened is enough when a set is, and lets the participants of another vote and be
// voted for as well. It is for a change of the ensemble that a server knows
// only from a peer: it may never come, so nothing may wait for its quorum; but those who
// have it in their logs need the votes of its servers, and may have to be led by
// one of them.
type Widened struct {
	Set
	other        Set
	participants IDs
}

// NewWidened lets the participants of other take part in set. Without another one it
// returns set.
func NewWidened(set, other Set) Set {
	if other == nil {
		return set
	}
	both := append(append(IDs(nil), set.Participants()...), other.Participants()...)
	return Widened{set, other, MakeIDs(both...)}
}

// Participants implements Set: who votes in either.
func (w Widened) Participants() IDs { return w.participants }

// Weight implements Set: the larger one in either, see Joint.
func (w Widened) Weight(id ID) int64 { return max(w.Set.Weight(id), w.other.Weight(id)) }

// Enough implements Set.
func (j Joint) Enough(servers IDs) bool {
	return j.current.Enough(servers) && j.next.Enough(servers)
}

// Participants implements Set: who votes in either.
func (j Joint) Participants() IDs { return j.participants }

// Weight implements Set: the larger one in either, for a server without any must not lead.
// If that in force alone counted, the only one with weight could be behind others that are
// to have some, and whose votes both need: it could never lead, and nobody else might.
func (j Joint) Weight(id ID) int64 { return max(j.current.Weight(id), j.next.Weight(id)) }
