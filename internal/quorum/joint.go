package quorum

// Joint demands a quorum of the configuration in force and also one of the configuration that
// is to follow. While a change of the ensemble is under way, everything from its proposal on
// needs both, so neither the old nor the new ensemble can decide without the other.
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

// Widened demands a quorum of one set, but lets the participants of another set vote and be
// voted for as well. It is for a change of the ensemble that a server knows only from a peer.
// The change may never be committed, so nothing may wait for its quorum. But the servers that
// have it in their logs need the votes of its participants, and one of those participants may
// have to lead them.
type Widened struct {
	Set
	other        Set
	participants IDs
}

// NewWidened lets the participants of other take part in set. If other is nil, it returns set.
func NewWidened(set, other Set) Set {
	if other == nil {
		return set
	}
	both := append(append(IDs(nil), set.Participants()...), other.Participants()...)
	return Widened{set, other, MakeIDs(both...)}
}

// Participants implements Set: the participants of either set.
func (w Widened) Participants() IDs { return w.participants }

// Weight implements Set: the higher of the two weights, see Joint.
func (w Widened) Weight(id ID) int64 { return max(w.Set.Weight(id), w.other.Weight(id)) }

// Enough implements Set.
func (j Joint) Enough(servers IDs) bool {
	return j.current.Enough(servers) && j.next.Enough(servers)
}

// Participants implements Set: the participants of either configuration.
func (j Joint) Participants() IDs { return j.participants }

// Weight implements Set. It returns the higher of the two weights, because a server with weight
// 0 must not lead. If only the configuration in force counted, an election could get stuck: the
// only server with weight there might have a shorter history than servers that get weight in
// the next configuration, and both configurations need their votes. That server could never
// lead, and no other server would be allowed to.
func (j Joint) Weight(id ID) int64 { return max(j.current.Weight(id), j.next.Weight(id)) }
