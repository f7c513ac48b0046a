package zabtest

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// Mutant is a known bug that is put back around the peers: at the disk, on the links, or in
// what counts as a quorum.
type Mutant uint8

// The mutants.
const (
	None              Mutant = iota
	AckBeforeSync            // ZOOKEEPER-3911, 4646: completions come before the log is durable
	EpochBeforeLog           // ZOOKEEPER-4643: the current epoch is durable before the history
	TreeKept                 // ZOOKEEPER-2845, 3642, 5094: the tree is not reloaded when it must be
	AheadNotRefused          // ZOOKEEPER-335: a leader does not see that a learner is ahead
	EpochForgotten           // ZOOKEEPER-1291, 1343: the accepted epoch is not durable
	CommitAlone              // the leader alone is a quorum
	ObserversCount           // ZOOKEEPER-2959: observers count
	CutComesBack             // ZOOKEEPER-4837: what TRUNC has truncated is there again after a crash
	SyncWithoutQuorum        // ZOOKEEPER-1675: a sync is answered without asking anybody
	MasterUncommitted        // an observer master hands on proposals, not commits

	mutants
)

// Mutants returns all of them.
func Mutants() []Mutant {
	var all []Mutant
	for m := None + 1; m < mutants; m++ {
		all = append(all, m)
	}
	return all
}

// String names the mutant.
func (m Mutant) String() string {
	return [...]string{
		"none", "ack-before-sync", "epoch-before-log", "tree-kept", "ahead-not-refused", "epoch-forgotten",
		"commit-alone", "observers-count", "cut-comes-back", "sync-without-quorum", "master-uncommitted",
	}[m]
}

// What says what the mutant does.
func (m Mutant) What() string {
	return [...]string{
		"none", "completions come before the log is durable", "the current epoch is durable before the history",
		"the tree is not reloaded when it must be", "a leader does not see that a learner is ahead", "the accepted epoch is not durable",
		"the leader alone is a quorum", "observers count", "what TRUNC has truncated is there again after a crash",
		"a sync is answered without asking anybody", "an observer master hands on proposals, not commits",
	}[m]
}

func (m Mutant) keepsTree() bool { return m == TreeKept }

// put is the disk of a server with the mutant.
func (m Mutant) put(s *server, op operation) {
	switch {
	case m == AckBeforeSync && op.Kind == zab.EffectSync:
		s.push(zab.Event{Kind: zab.EventDone, Ticket: op.Ticket})
	case m == EpochBeforeLog && op.Kind == zab.EffectSetCurrent:
		s.disk.do(s, &op)
	case m == EpochForgotten && op.Kind == zab.EffectSetAccepted:
		op.Epoch = s.disk.accepted // noted with the current epoch only
	case m == EpochForgotten && op.Kind == zab.EffectSetCurrent:
		s.put(operation{Effect: zab.Effect{Kind: zab.EffectSetAccepted, Epoch: op.Epoch}})
	}
	s.put(op)
}

// message returns a message as the mutant changes it on its way.
func (m Mutant) message(msg zab.Message) zab.Message {
	switch {
	case m == AheadNotRefused && msg.Kind == zab.KindAckEpoch && msg.Epoch != zab.NoEpoch:
		msg.Epoch = 0
	case m == ObserversCount && msg.Kind == zab.KindObserverInfo:
		msg.Kind = zab.KindFollowerInfo
	}
	return msg
}

// relays makes an observer master pass on a proposal to its observers as soon as it arrives.
func (m Mutant) relays(s *server, msg *zab.Message) {
	if m != MasterUncommitted || msg.Kind != zab.KindProposal || s.peer.State() != zab.Following {
		return
	}
	for _, id := range s.linkIDs() {
		if s.pipes[id].to.observer {
			s.pipes[id].send(frame{message: &zab.Message{Kind: zab.KindInform, Zxid: msg.Zxid, Payload: msg.Payload}})
		}
	}
}

// withholds reports whether a server does not send a message of a kind, because it was sent
// already.
func (m Mutant) withholds(s *server, kind zab.Kind) bool {
	return m == MasterUncommitted && kind == zab.KindInform && s.peer.State() == zab.Following
}

// quorum returns the servers that a mutant accepts as a quorum.
func (m Mutant) quorum(set quorum.Majority, w *World) quorum.Set {
	switch m {
	case CommitAlone:
		return atLeast{set, 1}
	case ObserversCount:
		return atLeast{set, w.opts.Participants/2 + 1}
	}
	return set
}

// atLeast counts servers of any kind.
type atLeast struct {
	quorum.Majority
	servers int
}

// Enough implements quorum.Set.
func (a atLeast) Enough(servers quorum.IDs) bool { return len(servers) >= a.servers }
