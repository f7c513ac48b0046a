package fle

import "github.com/conclave-project/conclave/internal/quorum"

// lastVote is the last message of a participant, as far as it counts.
type lastVote struct {
	Vote
	round   int64
	state   State
	version int32
}

func lastVoteOf(n *Notification) lastVote { return lastVote{n.Vote, n.Round, n.State, n.Version} }

// tally holds the last vote of each participant. It is always read in the order of the
// participants, never in that of the map.
type tally map[quorum.ID]lastVote

// sameVote reports whether two looking servers vote the same in the same round. Servers that
// follow already are left out: they may have joined without a vote, with a longer history than
// the leader's (fle-F3).
func sameVote(a, b lastVote) bool {
	return a.state == Looking && b.state == Looking && a.Vote == b.Vote && a.round == b.round
}

// sameInRound reports whether two votes of one round are for the same leadership. The votes of
// looking servers must be equal in full. For servers that decided in this round the leader is
// enough: one of them may already have the new epoch in its vote when another does not have it
// yet.
func sameInRound(a, b lastVote) bool {
	if a.state == Looking || b.state == Looking {
		return a.Vote == b.Vote && a.round == b.round
	}
	return a.Leader == b.Leader
}

// sameLeadership reports whether two servers that follow or lead report the same leadership,
// which means the same leader and epoch. Zxid and round may differ, because they date from when
// each server joined (ZOOKEEPER-1732, 1818). The oldest format has no epoch to compare.
func sameLeadership(a, b lastVote) bool {
	if (a.version > 0) != (b.version > 0) {
		return a.Leader == b.Leader
	}
	return a.Leader == b.Leader && a.Epoch == b.Epoch
}

// agreeing returns the participants whose lastVote is the same as b.
func (t tally) agreeing(participants quorum.IDs, b lastVote, same func(a, b lastVote) bool) quorum.IDs {
	var ids quorum.IDs
	for _, id := range participants {
		if other, ok := t[id]; ok && same(other, b) {
			ids = append(ids, id)
		}
	}
	return ids
}
