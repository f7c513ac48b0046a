package zab_test

import (
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// One test for each statement of Junqueira, Reed, Serafini: "Zab: High-performance broadcast
// for primary-backup systems" (DSN 2011), under the names that the steps have there (l: leader,
// f: follower; phase, step). CEPOCH is FOLLOWERINFO here, NEWEPOCH is LEADERINFO, ACK-E is
// ACKEPOCH, f.p is the accepted and f.a the current epoch. The paper's properties (integrity,
// total order, agreement, primary order) are checked by random_test.go.

// l.1.1: "upon receiving CEPOCH(e) messages from a quorum Q of followers,
// proposes NEWEPOCH(e') such that e' is later than any e received."
func TestPaperNewEpochIsLaterThanThatOfEveryFollowerInTheQuorum(t *testing.T) {
	s := newSolo(t, stored())
	s.want("", elected(1), up(2))
	s.want("accepted=8", hello(2, 7))
	s.want("link 2 <- LEADERINFO epoch=8", s.done())
}

func TestPaperNoNewEpochWithoutAQuorum(t *testing.T) {
	s := newSolo(t, stored())
	s.want("", elected(1))
	observer := on(2, zab.Message{Kind: zab.KindObserverInfo, Zxid: z(7, 0), Hello: zab.Hello{Server: 4}})
	s.want("", up(2), observer)
	stranger := on(3, zab.Message{Kind: zab.KindFollowerInfo, Hello: zab.Hello{Server: 9}})
	s.want("", up(3), stranger)
	s.want("accepted=8", up(4), on(4, zab.Message{Kind: zab.KindFollowerInfo, Hello: zab.Hello{Server: 3}}))
}

// f.1.1: "upon receiving NEWEPOCH(e') where f.p < e', makes f.p <- e' (on stable
// storage) and acknowledges with its current epoch and history."
func TestPaperFollowerPromisesBeforeItAcknowledges(t *testing.T) {
	s := newSolo(t, stored(z(1, 1), z(1, 2)))
	s.want("connect to 2", elected(2))
	s.want("link 100 <- FOLLOWERINFO server=1 accepted=1", up(toLeader))
	s.want("accepted=5", said(zab.KindLeaderInfo, z(5, 0)))
	s.want("link 100 <- ACKEPOCH last=1.2 current=1", s.done())
}

func TestPaperFollowerNeverGoesBackToAnOlderEpoch(t *testing.T) {
	s := newSolo(t, zab.Stored{Accepted: 5})
	s.step(elected(2), up(toLeader))
	s.want("close link 100; LEAVE: old leader; look", said(zab.KindLeaderInfo, z(4, 0)))
}

// l.1.2: "once it receives confirmation from each follower in Q, selects the
// history" that is most recent. ZooKeeper elects the server that has it, and
// the leader refuses a follower that has more.
func TestPaperLeaderWithoutTheMostRecentHistoryDoesNotLead(t *testing.T) {
	for _, ahead := range []zab.Event{ackEpoch(2, z(1, 2), 1), ackEpoch(2, z(1, 0), 2)} {
		s := newSolo(t, stored(z(1, 1)))
		s.step(elected(1), up(2), hello(2, 2))
		s.step(s.done())
		s.want("close link 2", ahead)
		s.want("LEAVE: no quorum of ACKEPOCH; look", s.wait(2001))
	}
}

// f.1.1 and l.1.2 again: a follower that had accepted the epoch before may have done so for
// another leader, so its answer is no confirmation.
func TestPaperAnEpochIsAcknowledgedOnce(t *testing.T) {
	s := newSolo(t, zab.Stored{Accepted: 5})
	s.step(elected(2), up(toLeader))
	s.want("link 100 <- ACKEPOCH last=0.0 current=-1", said(zab.KindLeaderInfo, z(5, 0)))

	s = newSolo(t, stored())
	s.step(elected(1), up(2), hello(2, 0))
	s.step(s.done())
	s.want("", ackEpoch(2, 0, zab.NoEpoch))
}

// l.2.1: "proposes NEWLEADER(e', I) to all followers in Q." Phase 2 comes after
// the leader itself has taken the epoch.
func TestPaperLeaderSendsItsHistoryAndNewLeader(t *testing.T) {
	s := newSolo(t, stored(z(1, 1), z(1, 2)))
	s.step(elected(1), up(2), hello(2, 1))
	s.step(s.done())
	s.want("current=2", ackEpoch(2, z(1, 1), 1))
	s.want("link 2 <- DIFF 1.2; link 2 <- PROPOSAL 1.2; link 2 <- COMMIT 1.2; link 2 <- NEWLEADER epoch=2", s.done())
}

// f.2.1: "if f.p = e', executes atomically: sets f.a to e' and accepts each
// transaction in I; then acknowledges NEWLEADER." "If f.p != e', starts a new
// iteration of the protocol."
func TestPaperFollowerAcceptsHistoryThenEpochThenAcknowledges(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	s.follows(2)
	s.want("", said(zab.KindDiff, z(1, 2)), said(zab.KindProposal, z(1, 2)), said(zab.KindCommit, z(1, 2)))
	s.want("append 1.2; deliver 1.2; sync; current=2", said(zab.KindNewLeader, z(2, 0)))
	s.want("link 100 <- ACK 2.0", s.done())
}

func TestPaperFollowerRefusesNewLeaderOfAnotherEpoch(t *testing.T) {
	s := newSolo(t, stored())
	s.follows(2)
	s.step(said(zab.KindDiff, 0))
	s.want("close link 100; LEAVE: illegal message; look", said(zab.KindNewLeader, z(3, 0)))
}

// l.2.2: "upon receiving acknowledgements to the NEWLEADER from a quorum, sends
// a commit message and goes to phase 3."
func TestPaperLeaderServesWhenAQuorumHasItsHistory(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	s.step(elected(1), up(2), up(3), hello(2, 1), hello(3, 1))
	s.step(s.done())
	s.step(ackEpoch(2, z(1, 1), 1), ackEpoch(3, z(1, 1), 1))
	s.step(s.done())
	s.want("SERVE epoch 2; link 2 <- UPTODATE", ack(2, z(2, 0)))
	s.want("link 3 <- UPTODATE", ack(3, z(2, 0)))
}

// f.2.2: "upon receiving the commit message, delivers all transactions in I." They are in the
// tree before that, but nobody sees the tree before UPTODATE.
func TestPaperFollowerServesAfterTheCommitOfTheHistory(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	s.follows(2)
	s.step(said(zab.KindDiff, z(1, 1)), said(zab.KindNewLeader, z(2, 0)))
	s.step(s.done())
	s.want("link 100 <- ACK 2.0; SERVE epoch 2", said(zab.KindUpToDate, zk.NoZxid))
}

// l.3.1: "proposes to all followers in Q in increasing order of zxid, such that
// epoch(z) = e' and z succeeds all zxids previously broadcast in e'."
func TestPaperProposalsAreInOrderAndOfTheEpoch(t *testing.T) {
	s := newSolo(t, stored(z(1, 7)))
	s.leads()
	if next := s.p.NextZxid(); next != z(2, 1) {
		t.Errorf("first zxid is %s", zab.FormatZxid(next))
	}
	s.want("append 2.1; link 2 <- PROPOSAL 2.1; append 2.2; link 2 <- PROPOSAL 2.2; sync", propose(z(2, 1), z(2, 2))...)
	defer func() {
		if recover() == nil {
			t.Error("a proposal that leaves a gap was taken")
		}
	}()
	s.step(propose(z(2, 4))...)
}

// f.3.1: "accepts proposals from the leader following reception order, appends
// them to its history and sends an acknowledgement."
func TestPaperFollowerAcknowledgesWhatIsOnDiskInOrder(t *testing.T) {
	s := newSolo(t, stored())
	s.serves(1)
	s.want("append 1.1; append 1.2; sync", said(zab.KindProposal, z(1, 1)), said(zab.KindProposal, z(1, 2)))
	s.want("link 100 <- ACK 1.1; link 100 <- ACK 1.2", s.done())
}

// l.3.2: "upon receiving acknowledgements from a quorum of followers to a proposal, sends a
// COMMIT to all followers." The leader's own acknowledgement counts when the proposal is on its
// disk.
func TestPaperLeaderCommitsWithAQuorumInOrder(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(propose(z(1, 1), z(1, 2))...)
	s.want("", ack(2, z(1, 1)))
	s.want("link 2 <- COMMIT 1.1; deliver 1.1", s.done())
	s.want("link 2 <- COMMIT 1.2; deliver 1.2", ack(2, z(1, 2)))
}

// f.3.2: "commits a transaction once it receives COMMIT and it has committed all transactions
// before it." A COMMIT out of order belongs to another history.
func TestPaperFollowerDeliversInOrder(t *testing.T) {
	s := newSolo(t, stored())
	s.serves(1)
	s.step(said(zab.KindProposal, z(1, 1)), said(zab.KindProposal, z(1, 2)))
	s.step(s.done())
	s.want("deliver 1.1", said(zab.KindCommit, z(1, 1)))
	s.want("deliver 1.2", said(zab.KindCommit, z(1, 2)))
	s.want("close link 100; LEAVE: commit of another proposal; look", said(zab.KindCommit, z(1, 4)))
}

// l.3.3 and l.3.4: "upon receiving CEPOCH(e) from follower f while in phase 3,
// proposes back NEWEPOCH(e') and NEWLEADER(e', I and what was proposed since)";
// "upon its acknowledgement sends a commit message and adds f to Q."
func TestPaperALateFollowerGetsHistoryAndWhatIsProposed(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	s.leads()
	s.step(propose(z(2, 1), z(2, 2))...)
	s.step(s.done())
	s.step(ack(2, z(2, 1)))
	s.want("link 3 <- LEADERINFO epoch=2", up(3), hello(3, 1))
	s.want("link 3 <- DIFF 2.1; link 3 <- PROPOSAL 2.1; link 3 <- COMMIT 2.1; link 3 <- PROPOSAL 2.2; "+
		"link 3 <- NEWLEADER epoch=2", ackEpoch(3, z(1, 1), 1))
	s.want("append 2.3; link 2 <- PROPOSAL 2.3; link 3 <- PROPOSAL 2.3; sync", propose(z(2, 3))...)
	s.want("link 3 <- UPTODATE", ack(3, z(2, 0)))
	s.want("link 2 <- COMMIT 2.2; link 3 <- COMMIT 2.2; deliver 2.2", ack(3, z(2, 2)))
}

// Section on failures: "if a leader does not receive heartbeats from a quorum
// of followers within a timeout, it abandons its leadership"; "if a follower
// does not receive heartbeats from its leader within a timeout, it abandons the
// leader."
func TestPaperLeaderWithoutAQuorumAbandonsItsLeadership(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.want("link 2 <- PING 1.0", s.wait(900))
	s.want("close link 2", s.wait(101))
	s.want("LEAVE: quorum lost; look", s.wait(99)) // seen once a tick
}

func TestPaperFollowerAbandonsASilentLeader(t *testing.T) {
	s := newSolo(t, stored())
	s.serves(1)
	s.want("", s.wait(900))
	s.want("link 100 <- PING 1.0", said(zab.KindPing, z(1, 0)))
	s.want("", s.wait(1000))
	s.want("close link 100; LEAVE: leader silent; look", s.wait(1))
}
