package zabmodel

import (
	"github.com/conclave-project/conclave/internal/model"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// Mutant is a known bug, put back around a peer: at its disk, in what it receives
// and in what counts as a quorum.
type Mutant string

// The mutants.
const (
	None            Mutant = ""
	AckBeforeSync   Mutant = "zab-ack-before-sync"
	EpochBeforeLog  Mutant = "zab-epoch-before-log"
	EpochForgotten  Mutant = "zab-epoch-forgotten"
	NewLeaderEarly  Mutant = "zab-newleader-acked-early"
	TreeKept        Mutant = "zab-tree-kept"
	AheadNotRefused Mutant = "zab-ahead-not-refused"
	CommitAlone     Mutant = "zab-commit-without-quorum"
	OldQuorumAlone  Mutant = "zab-discovery-by-old-quorum"
	FailureDropped  Mutant = "zab-failure-dropped"
)

// Mutants returns all mutants.
func Mutants() []model.Mutant {
	return []model.Mutant{
		hunt(AckBeforeSync, "zab", Full, "ZOOKEEPER-3911, 4646", "a sync is said to be done when it is asked for"),
		hunt(EpochBeforeLog, "zab", Full, "ZOOKEEPER-4643", "the current epoch is on disk before the history it stands for"),
		hunt(EpochForgotten, "zab", Epochs, "ZOOKEEPER-1291, 1343", "the accepted epoch is on disk with the current one only"),
		hunt(NewLeaderEarly, "zab", Full, "ZOOKEEPER-4785", "NEWLEADER is acknowledged before history and epoch are durable"),
		hunt(TreeKept, "zab", Full, "ZOOKEEPER-2845, 5094", "the tree is not read again when the log is truncated"),
		hunt(AheadNotRefused, "zab", Full, "ZOOKEEPER-335", "a leader does not see that a learner is ahead"),
		hunt(CommitAlone, "zab", Full, "scenario-C11", "every leader takes itself for a quorum in broadcast"),
		hunt(OldQuorumAlone, "zab-reconfig", FullReconfig, "an acknowledged write lost around a reconfig", "discovery asks the old ensemble alone"),
		hunt(FailureDropped, "zab-snapshot", SmallSnapshot, "a server never elects again", "the report that the log cannot be truncated is lost"),
	}
}

// hunt returns a mutant with the scope in which it is searched for.
func hunt(m Mutant, in string, s Scope, origin, what string) model.Mutant {
	s.Mutant = m
	return model.Mutant{Name: string(m), Model: in, Origin: origin, What: what, New: func() *model.Model { return New(s) }}
}

// put adds an operation to the disk, as the mutant does it.
func (m Mutant) put(t *turn, op operation) {
	switch {
	case m == AckBeforeSync && op.Kind == zab.EffectSync,
		m == NewLeaderEarly && op.Kind == zab.EffectSetCurrent && t.Peer.State() == zab.Following:
		t.push(zab.Event{Kind: zab.EventDone, Ticket: op.Ticket})
	case m == EpochBeforeLog && op.Kind == zab.EffectSetCurrent:
		t.Disk.do(op)
	case m == EpochForgotten && op.Kind == zab.EffectSetAccepted:
		op.Epoch = t.Disk.Accepted
	case m == EpochForgotten && op.Kind == zab.EffectSetCurrent:
		t.Disk.Pending = append(t.Disk.Pending, operation{Kind: zab.EffectSetAccepted, Epoch: op.Epoch})
	}
	t.Disk.Pending = append(t.Disk.Pending, op)
}

// tells reports whether a completion is reported when the disk has done it. A mutant may
// have reported it before.
func (m Mutant) tells(op operation) bool {
	return !(m == AckBeforeSync && op.Kind == zab.EffectSync)
}

// message returns an arriving message as the mutant sees it.
func (m Mutant) message(msg zab.Message) zab.Message {
	if m == AheadNotRefused && msg.Kind == zab.KindAckEpoch && msg.Epoch != zab.NoEpoch {
		msg.Epoch = 0
	}
	return msg
}

// quorum returns the set that the mutant takes for a quorum.
func (m Mutant) quorum(set quorum.Majority) quorum.Set {
	if m == CommitAlone {
		return anybody{set}
	}
	return set
}

// anybody is satisfied by any one server.
type anybody struct{ quorum.Majority }

// Enough implements quorum.Set.
func (a anybody) Enough(servers quorum.IDs) bool { return len(servers) > 0 }

// around may change a peer for the duration of a step.
func (m Mutant) around(p *zab.Peer) (undo func()) {
	if m != OldQuorumAlone || p.Phase() != zab.Discovery || p.State() != zab.Leading {
		return func() {}
	}
	const noting = 3 // leaderNoting: discovery is over
	next, stage := model.Field(p, "next"), model.Field(model.Field(p, "lead").Interface(), "stage")
	if next.IsNil() || stage.Uint() >= noting {
		return func() {}
	}
	config := next.Elem().Interface()
	next.SetZero()
	return func() {
		if next.IsNil() {
			c := config.(zab.Config)
			model.SetField(p, "next", &c)
		}
	}
}
