package fle

import "github.com/conclave-project/conclave/internal/quorum"

// ballot is what one voter said last, as far as it counts.
type ballot struct {
	Vote
	round   int64
	state   State
	version int32
}

func ballotOf(n *Notification) ballot { return ballot{n.Vote, n.Round, n.State, n.Version} }

// tally is the last word of each voter. It is read in the order of the voters
// only, never in that of the map.
type tally map[quorum.ID]ballot

// sameVote says whether two looking servers vote the same in the same round.
// Servers that follow by now are left out: they may have joined without a vote,
// with a longer history than the leader's (F3).
func sameVote(a, b ballot) bool {
	return a.state == Looking && b.state == Looking && a.Vote == b.Vote && a.round == b.round
}

// sameInRound says whether two ballots of one round are for the same
// leadership. What a looking server says must be equal in full. Of servers that
// decided in this round the leader is enough: one of them may already have the
// new epoch in its vote and another not yet.
func sameInRound(a, b ballot) bool {
	if a.state == Looking || b.state == Looking {
		return a.Vote == b.Vote && a.round == b.round
	}
	return a.Leader == b.Leader
}

// sameLeadership says whether two servers that follow or lead speak of the same
// leadership: leader and epoch. Zxid and round may differ, they are of the day
// on which each of them joined (ZOOKEEPER-1732, 1818). The oldest format has no
// epoch to compare.
func sameLeadership(a, b ballot) bool {
	if (a.version > 0) != (b.version > 0) {
		return a.Leader == b.Leader
	}
	return a.Leader == b.Leader && a.Epoch == b.Epoch
}

// agreeing returns the voters whose ballot is the same as b.
func (t tally) agreeing(voters quorum.IDs, b ballot, same func(a, b ballot) bool) quorum.IDs {
	var ids quorum.IDs
	for _, id := range voters {
		if other, ok := t[id]; ok && same(other, b) {
			ids = append(ids, id)
		}
	}
	return ids
}
