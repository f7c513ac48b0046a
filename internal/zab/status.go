package zab

import (
	"cmp"
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Learner is what a leader, or an observer master, knows about one of its learners, for
// reports.
type Learner struct {
	Server   quorum.ID
	Observer bool // it said so itself, and has no vote
	InSync   bool // it has the leader's history and takes part in broadcast
	Stage    LearnerStage
	Acked    zk.Zxid // for a participant in sync: its log has everything up to here; for an observer: what it had when it was synchronized
	Queued   zk.Zxid // the last proposal sent to it
	SilentMs int64   // time from its last message to the last step
}

// LearnerStage is how far a learner has come.
type LearnerStage uint8

// The stages, in their order.
const (
	LearnerJoining LearnerStage = iota // the epoch is being agreed on
	LearnerSyncing                     // history is on its way to it
	LearnerSynced                      // it has the history; the leader is not established, or has not said so yet
	LearnerServing                     // it takes part in broadcast
)

var learnerStageNames = [...]string{"joining", "syncing", "synced", "serving"}

// String is the stage as reports name it.
func (s LearnerStage) String() string { return learnerStageNames[s] }

var stageOfLink = [linkStages]LearnerStage{
	linkSyncing: LearnerSyncing, linkReading: LearnerSyncing, linkSynced: LearnerSynced, linkServing: LearnerServing,
}

// Learners lists the servers that follow or observe this server, by number; nil if it neither
// leads nor is an observer master. A server that has not sent a hello yet is not listed.
func (p *Peer) Learners() []Learner {
	ls := p.serves()
	if ls == nil {
		return nil
	}
	out := make([]Learner, 0, len(ls.links))
	for _, l := range ls.links {
		if l.stage == linkHello {
			continue
		}
		out = append(out, Learner{
			Server: l.server, Observer: l.observer, InSync: l.stage >= linkSynced, Stage: stageOfLink[l.stage],
			Acked: max(l.acked, l.told), Queued: l.queued, SilentMs: p.nowMs - l.receivedMs,
		})
	}
	slices.SortStableFunc(out, func(a, b Learner) int { return cmp.Compare(a.Server, b.Server) })
	return out
}

// Committed returns the last transaction that a leader has committed; elsewhere
// the last one that was delivered.
func (p *Peer) Committed() zk.Zxid {
	if p.lead == nil {
		return p.delivered
	}
	return p.lead.committed
}

// PendingSyncs returns how many syncs this leader has not answered yet.
func (p *Peer) PendingSyncs() int {
	if p.lead == nil {
		return 0
	}
	return len(p.lead.syncs)
}

// NowMs returns the time of the last step.
func (p *Peer) NowMs() int64 { return p.nowMs }

// LeaderSilentMs returns the time from the last message of a learner's leader to the
// last step, 0 in another role.
func (p *Peer) LeaderSilentMs() int64 {
	if p.learn == nil {
		return 0
	}
	return p.nowMs - p.learn.receivedMs
}

var stateNames = [...]string{Looking: "looking", Following: "following", Leading: "leading", Observing: "observing"}

// String is the state as ZooKeeper names it.
func (s State) String() string { return stateNames[s] }

var phaseNames = [...]string{
	Election: "election", Discovery: "discovery", Synchronization: "synchronization", Broadcast: "broadcast",
}

// String is the phase as ZooKeeper names it.
func (p Phase) String() string { return phaseNames[p] }
