package raftmodel

import (
	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/raft"
	"github.com/conclave-project/conclave/internal/model"
)

// Mutant is a known bug, put back around a member.
type Mutant string

// The mutants.
const (
	None            Mutant = ""
	VoteForgotten   Mutant = "raft-vote-not-persisted"
	VotesTwice      Mutant = "raft-two-votes-a-term"
	NoDrift         Mutant = "raft-drift-ignored"
	LeaseFromAnswer Mutant = "raft-lease-from-answer"
	PromiseLost     Mutant = "raft-promise-lost"
	NotSilent       Mutant = "raft-newcomer-not-silent"
	NoFloor         Mutant = "raft-newcomer-without-floor"
	AsksOne         Mutant = "raft-newcomer-asks-one"
)

// Mutants returns all mutants.
func Mutants() []model.Mutant {
	return []model.Mutant{
		hunt(VoteForgotten, "raft", Full, "Raft, section 5.2", "term and vote are not stored"),
		hunt(VotesTwice, "raft", Full, "Raft, section 5.2", "a member votes for every candidate that asks, also twice in a term"),
		hunt(NoDrift, "raft-lease", FullLease, "etcd 11457", "a leader counts as if all clocks had one rate"),
		hunt(LeaseFromAnswer, "raft-lease", Stands, "etcd 11457", "a lease counts from the answer, not from the question"),
		hunt(PromiseLost, "raft", Full, "Raft thesis, section 6.4.1", "a member that has started again votes at once"),
		hunt(NotSilent, "raft-lose", QuickLose, "an error of the textbooks", "a member that lost its disk takes part at once, and has forgotten a promise"),
		hunt(NoFloor, "raft-lose", SmallLose, "a member that voted twice", "a member that lost its disk votes in terms of before"),
		hunt(AsksOne, "raft-lose", QuickLose, "a member that voted twice", "a member that lost its disk asks one other member alone"),
	}
}

// hunt returns a mutant with the scope in which it is searched for.
func hunt(m Mutant, in string, s Scope, origin, what string) model.Mutant {
	s.Mutant = m
	return model.Mutant{Name: string(m), Model: in, Origin: origin, What: what, New: func() *model.Model { return New(s) }}
}

// persist stores a state as the mutant does.
func (m Mutant) persist(p *member, state algo.State) {
	if m != VoteForgotten {
		p.Disk = state
	}
}

// newcomer returns the Newcomer with which a mutant begins without its disk.
func (m Mutant) newcomer(others []algo.ID) *raft.Newcomer {
	switch m {
	case NotSilent:
		return raft.NewNewcomer(1, others)
	case AsksOne:
		return raft.NewNewcomer(leaseMs, others[:1])
	}
	return raft.NewNewcomer(leaseMs, others)
}

// entryFloor returns the floor with which a mutant takes part again.
func (m Mutant) entryFloor(floor uint64) uint64 {
	if m == NoFloor {
		return 0
	}
	return floor
}

// before may change a machine before an event.
func (m Mutant) before(p *member, event algo.Event) {
	e, received := event.(algo.Received)
	switch {
	case m == VotesTwice && received && e.Type == algo.RequestVote:
		state := model.Field(p.Machine, "state").Interface().(algo.State)
		if state.Vote != p.ID {
			state.Vote = ""
			model.SetField(p.Machine, "state", state)
		}
	case m == PromiseLost:
		if promise := model.Field(p.Machine, "promise"); promise.FieldByName("to").String() == "" {
			promise.SetZero()
		}
	}
}

// until returns when a mutant stops leading.
func (m Mutant) until(p *member, sentMs, untilMs int64) int64 {
	switch m {
	case NoDrift:
		return sentMs + leaseMs
	case LeaseFromAnswer:
		return untilMs + p.NowMs - sentMs
	}
	return untilMs
}
