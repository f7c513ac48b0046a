package raft

import (
	"cmp"
	"slices"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/internal/invariant"
)

// Newcomer is a member without memory: a new one, or one that has lost its directory and
// may have voted. It finds out whether, when and with which Floor this member takes part
// (raft-T8), for all elections of the member at once. Until then the member neither votes
// nor promises nor campaigns.
//
// The caller ensures that a member that was met refuses all messages of any other directory
// of this id, including messages in flight, and remembers that in its own directory. The
// caller also reports when a connection is made again or ends: the other member may have
// lost its directory meanwhile.
//
// It is pure: no goroutine, clock or I/O. It is not safe for concurrent use.
type Newcomer struct {
	others   []algo.ID
	quietMs  int64
	met      []algo.ID        // members that are connected
	let      []algo.ID        // members that have met this one at some time
	founder  bool             // the group was founded with this member's directory
	allMs    int64            // since when all are connected
	round    uint64           // number of the current round of questions
	asked    bool             // whether the round's question was asked
	told     map[algo.ID]Told // the answers of the round
	askAtMs  int64            // when to ask again, once all have answered
	lost     bool             // a member remembers another directory of this member
	few      bool             // too few members had a memory
	memories int              // how many had one
}

// Told is a member's answer to a newcomer.
type Told struct {
	// Term is the highest term or Floor that the member knows of any election, 0 if it
	// knows of no election.
	Term uint64
	// Remembers reports whether the member has a memory: it takes part.
	Remembers bool
	// Lost reports that the member has a memory, but does not know the newcomer's directory
	// as one with which the group was founded: there was an earlier directory, which may
	// have voted in elections that the member has not met.
	Lost bool
}

// NewNewcomer returns a newcomer that has met no member. others are all members except this
// one. quietMs is how long it waits after it met the last of them: two leases, in which a
// candidate that it voted for before leads or gives up, and a leader of a lower term has
// lost its lease.
func NewNewcomer(quietMs int64, others []algo.ID) *Newcomer {
	invariant.Check(quietMs > 0 && len(others) > 0, "raft: a newcomer needs a time of silence and other members")
	return &Newcomer{others: slices.Clone(others), quietMs: quietMs}
}

// Meet records a connection to a member, a first one or a replacement.
func (n *Newcomer) Meet(nowMs int64, id algo.ID) {
	n.Part(id)
	if !slices.Contains(n.let, id) {
		n.let = append(n.let, id)
	}
	if n.met = append(n.met, id); len(n.met) == len(n.others) {
		n.allMs = nowMs
		n.begin()
	}
}

// Found records that a member remembers the founding of the group: at a time when nobody
// knew of an election, and with the directory that this member has.
func (n *Newcomer) Found() { n.founder = true }

// Founder reports whether this member takes part at once, without a Floor: the group was
// founded with its directory, and all others have met it, so no other directory of its id
// votes. It has lost nothing, because it has never voted (raft-T8). The others need not be
// connected at the same time: a leader may be gone by now.
func (n *Newcomer) Founder() bool { return n.founder && len(n.let) == len(n.others) }

// Part records that the connection to a member has ended.
func (n *Newcomer) Part(id algo.ID) {
	n.met = slices.DeleteFunc(n.met, func(one algo.ID) bool { return one == id })
	n.told, n.few = nil, false
}

// begin begins a round of questions.
func (n *Newcomer) begin() {
	n.round++
	n.told, n.asked = make(map[algo.ID]Told), false
}

// Ask returns the number of the question that all others must be asked now, and false if
// there is none.
func (n *Newcomer) Ask(nowMs int64) (round uint64, ok bool) {
	if len(n.told) == len(n.others) && nowMs >= n.askAtMs {
		n.begin()
	}
	if n.told == nil || n.asked {
		return 0, false
	}
	n.asked = true
	return n.round, true
}

// WakeMs returns when Ask has a question again, and false when only another event can
// lead to one.
func (n *Newcomer) WakeMs() (int64, bool) {
	return n.askAtMs, n.told != nil && len(n.told) == len(n.others)
}

// Answer handles the answer of a member. It returns the Floor with which this member takes
// part from now on, and false while it does not take part.
func (n *Newcomer) Answer(nowMs int64, from algo.ID, round uint64, told Told) (floor uint64, ok bool) {
	if n.told == nil || round != n.round || !slices.Contains(n.met, from) {
		return 0, false
	}
	n.told[from] = told
	if len(n.told) < len(n.others) {
		return 0, false
	}
	n.memories, n.lost = 0, false
	for _, one := range n.told {
		floor, n.lost = max(floor, one.Term), n.lost || one.Lost
		if one.Remembers {
			n.memories++
		}
	}
	founds := n.Founds(floor)
	n.few = !founds && n.memories < n.memoriesMin()
	quietAtMs := n.allMs + n.quietMs
	switch {
	case founds:
		return 0, true
	case n.few:
		n.askAtMs = nowMs + n.quietMs
	case nowMs < quietAtMs:
		n.askAtMs = quietAtMs
	default:
		return floor, true
	}
	return 0, false
}

// Founds reports whether this member, when it takes part, founds the group: nobody knows of
// an election, or of another directory of this member.
func (n *Newcomer) Founds(floor uint64) bool { return floor == 0 && !n.lost }

// memoriesMin returns how many members with a memory are enough to meet every quorum that
// this member may have been part of.
func (n *Newcomer) memoriesMin() int {
	members := len(n.others) + 1
	return members - (members/2 + 1) + 1
}

// Missing returns the members that must be met before anything is decided.
func (n *Newcomer) Missing() []algo.ID {
	missing := slices.DeleteFunc(slices.Clone(n.others), func(id algo.ID) bool { return slices.Contains(n.met, id) })
	slices.SortFunc(missing, func(a, b algo.ID) int { return cmp.Compare(a, b) })
	return missing
}

// Few reports whether elections were held, or may have been, and too few members remember
// them. It returns how many do, and how many must.
func (n *Newcomer) Few() (memories, least int, few bool) { return n.memories, n.memoriesMin(), n.few }
