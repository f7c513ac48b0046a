package zab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// One test for each bug of ZooKeeper's Zab that formal work or users have found. Bugs that need
// several servers are stories in testdata; those that only show in many runs are mutants
// (zabtest/mutant.go).

// ZOOKEEPER-2845: a proposal that was logged but not committed must count in the next vote, and
// must be gone from the tree when the next leader truncates it.
func TestZK2845LoggedProposalsCountInTheVoteAndNotInTheTree(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(propose(z(1, 1))...)
	s.want("close link 2; LEAVE: stopped", zab.Event{Kind: zab.EventStop})
	s.want("look", s.done())
	if s.p.Last() != z(1, 1) || s.p.Delivered() != 0 {
		t.Errorf("last %s, delivered %s", zab.FormatZxid(s.p.Last()), zab.FormatZxid(s.p.Delivered()))
	}
	s.follows(2)
	s.want("truncate 0.0", said(zab.KindTrunc, 0))
	s.want("", s.done(), said(zab.KindProposal, z(2, 1)), said(zab.KindCommit, z(2, 1)))
	s.want("append 2.1; deliver 2.1; sync; current=2", said(zab.KindNewLeader, z(2, 0)))
}

// ZOOKEEPER-3911, 4646, 4785: nothing is acknowledged before it is on disk, in whatever pieces
// the disk reports it. ZOOKEEPER-4643: the history is durable before the epoch.
func TestZK3911And4643NewLeaderIsAcknowledgedWhenHistoryThenEpochAreDurable(t *testing.T) {
	s := newSolo(t, stored())
	s.follows(1)
	s.step(said(zab.KindDiff, z(1, 1)), said(zab.KindProposal, z(1, 1)), said(zab.KindCommit, z(1, 1)))
	s.want("append 1.1; deliver 1.1; sync; current=1", said(zab.KindNewLeader, z(1, 0)))
	s.want("", zab.Event{Kind: zab.EventDone, Ticket: s.ticket - 1})
	if _, current := s.p.Epochs(); current != 0 {
		t.Error("the epoch is taken before the disk has it")
	}
	s.want("link 100 <- ACK 1.0", s.done())
}

// ZOOKEEPER-3642: a tree that came by SNAP and is not on disk is useless when the leader is
// lost.
func TestZK3642TheTreeOfABrokenSnapIsThrownAway(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	s.follows(2)
	s.want("load-snapshot 1.9 link 100", said(zab.KindSnap, z(1, 9)))
	s.want("LEAVE: link lost, reload from disk",
		zab.Event{Kind: zab.EventLinkDown, Link: toLeader})
	s.want("", elected(2)) // the peer cannot be used any more
}

// ZOOKEEPER-3104: NEWLEADER is sent after the snapshot and after everything that was committed
// since.
func TestZK3104NewLeaderComesAfterTheWholeSnapshot(t *testing.T) {
	s := newSoloOf(t, zab.Options{ForceSnapshot: true}, stored(z(1, 1)))
	s.leads()
	s.step(propose(z(2, 1))...)
	s.step(up(3), hello(3, 0))
	s.want("link 3 <- SNAP 1.1; send-snapshot 1.1 link 3; link 3 <- PROPOSAL 2.1; link 3 <- NEWLEADER epoch=2", ackEpoch(3, 0, 0))
}

// ZOOKEEPER-3023: the ack of UPTODATE does not replace the acks of proposals.
func TestZK3023ProposalsOfTheSynchronizationAreAcknowledgedOneByOne(t *testing.T) {
	s := newSolo(t, stored())
	s.follows(1)
	s.step(said(zab.KindDiff, 0), said(zab.KindProposal, z(1, 1)), said(zab.KindNewLeader, z(1, 0)))
	s.want("link 100 <- ACK 1.0", s.done())
	s.want("link 100 <- ACK 1.0; append 1.1; SERVE epoch 1; sync", said(zab.KindUpToDate, zk.NoZxid))
	s.want("link 100 <- ACK 1.1", s.done())
}

// ZOOKEEPER-4394, 4785: a COMMIT may come anywhere after its PROPOSAL.
func TestZK4394CommitsComeAnywhereInTheSynchronization(t *testing.T) {
	p, c := said(zab.KindProposal, z(1, 1)), said(zab.KindCommit, z(1, 1))
	newLeader, upToDate := said(zab.KindNewLeader, z(1, 0)), said(zab.KindUpToDate, zk.NoZxid)
	for name, order := range map[string][]zab.Event{
		"PCNU": {p, c, newLeader, upToDate},
		"PNCU": {p, newLeader, c, upToDate},
		"PNUC": {p, newLeader, upToDate, c},
		"NPCU": {newLeader, p, c, upToDate},
		"NPUC": {newLeader, p, upToDate, c},
		"NUPC": {newLeader, upToDate, p, c},
	} {
		s := newSolo(t, stored())
		s.follows(1)
		all := s.step(said(zab.KindDiff, 0))
		for _, e := range order {
			if e.Message.Kind == zab.KindUpToDate {
				all += s.step(s.done()) // the leader has the ack already
			}
			all += s.step(e)
		}
		if strings.Count(all, "deliver 1.1") != 1 || strings.Count(all, "append 1.1") != 1 || strings.Contains(all, "LEAVE") {
			t.Errorf("%s: %s", name, all)
		}
	}
}

// ZOOKEEPER-4685: older Java followers acknowledge proposals before NEWLEADER.
func TestZK4685LeaderTakesAcksInEitherOrder(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(up(3), hello(3, 0), zab.Event{Kind: zab.EventLinkDown, Link: 2})
	s.step(propose(z(1, 1))...)
	s.step(s.done())
	s.step(ackEpoch(3, 0, 0))
	s.want("", ack(3, z(1, 1)))
	s.step(propose(z(1, 2))...)
	s.want("", s.done()) // it has 1.1, but not yet the history before it
	s.want("link 3 <- UPTODATE; link 3 <- COMMIT 1.1; deliver 1.1", ack(3, z(1, 0)))
}

// A link may be lost while the disk finds out that the log cannot be truncated where the leader
// said.
func TestALogThatCannotBeTruncatedIsReadAgainWithoutItsLeaderToo(t *testing.T) {
	s := newSolo(t, stored(z(1, 1), z(1, 2)))
	s.follows(2)
	s.want("truncate 1.1", said(zab.KindTrunc, z(1, 1)))
	trunc := s.ticket
	s.want("LEAVE: link lost", zab.Event{Kind: zab.EventLinkDown, Link: toLeader})
	s.want("LEAVE: cannot truncate, reload from disk", zab.Event{Kind: zab.EventFailed, Ticket: trunc})
	s.want("", elected(2)) // the peer cannot be used any more
}

// Learners may connect before this server knows that it leads, and while its disk is read
// again. The caller that makes the next peer must close their links.
func TestAPeerThatIsThrownAwayNamesTheLearnersThatWait(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	s.follows(2)
	s.step(said(zab.KindSnap, z(1, 9)))
	s.want("LEAVE: link lost, reload from disk", zab.Event{Kind: zab.EventLinkDown, Link: toLeader})
	s.want("", up(2), up(3), zab.Event{Kind: zab.EventLinkDown, Link: 3})
	if got := s.p.Waiting(); len(got) != 1 || got[0] != 2 {
		t.Errorf("links %v wait, want 2 alone", got)
	}
}

// A leader left its role while its disk hung. What still connects has been told of that role, and
// would wait for initLimit: the disk may take as long as it likes.
func TestNobodyWaitsForAServerThatCannotBeElected(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	s.serves(1)
	s.want("append 1.2; sync; close link 100; LEAVE: stopped", said(zab.KindProposal, z(1, 2)), zab.Event{Kind: zab.EventStop})
	s.want("close link 2", up(2))
	s.want("look", s.done())
	s.want("", up(3))
	if got := s.p.Waiting(); len(got) != 1 || got[0] != 3 {
		t.Errorf("links %v wait, want 3 alone", got)
	}
}

// ZOOKEEPER-4712: nothing that belongs to an old role is logged in a new one.
func TestZK4712NoElectionWhileTheDiskWorks(t *testing.T) {
	s := newSolo(t, stored())
	s.serves(1)
	s.want("append 1.1; sync; close link 100; LEAVE: stopped", said(zab.KindProposal, z(1, 1)), zab.Event{Kind: zab.EventStop})
	if s.p.Quiet() {
		t.Error("looks while the disk works")
	}
	s.want("look", s.done())
	s.want("", said(zab.KindProposal, z(1, 2)))
}

// ZOOKEEPER-4925: a stream with a gap ends the role, whether the gap is at its first record or
// later, in synchronization and in broadcast.
func TestZK4925GapsAreRefused(t *testing.T) {
	const gap = "close link 100; LEAVE: gap in proposals; look"
	s := newSolo(t, stored(z(1, 1)))
	s.follows(2)
	s.step(said(zab.KindDiff, z(1, 4)))
	s.want(gap, said(zab.KindProposal, z(1, 3)))

	s = newSolo(t, stored(z(1, 1)))
	s.follows(2)
	s.step(said(zab.KindDiff, z(1, 4)), said(zab.KindProposal, z(1, 2)))
	s.want(gap, said(zab.KindProposal, z(1, 4)))

	s = newSolo(t, stored(z(1, 1)))
	s.follows(3)
	s.step(said(zab.KindDiff, z(1, 1)))
	s.want(gap, said(zab.KindProposal, z(2, 2)))

	s = newSolo(t, stored())
	s.serves(1)
	s.want(gap, said(zab.KindProposal, z(1, 2)))
}

// ZOOKEEPER-4311: an epoch that is not on disk is no promise: nothing is sent until the disk
// has reported it, however long that takes.
func TestZK4311NoPromiseWithoutTheDisk(t *testing.T) {
	s := newSolo(t, stored())
	s.step(elected(1), up(2), up(3), hello(2, 0))
	s.want("", hello(3, 0))
	s.want("", s.wait(1900))
	s.want("link 2 <- LEADERINFO epoch=1; link 3 <- LEADERINFO epoch=1", s.done())
}

// ZOOKEEPER-1413, 2418: records from disk are not sent if they leave a gap to those in memory,
// or do not include the learner's last record.
func TestZK2418AGapBetweenLogAndMemoryMeansASnapshot(t *testing.T) {
	for name, read := range map[string]zab.Event{
		"gap":       {OK: true, Records: records(z(1, 1), z(1, 2))},
		"skips one": {OK: true, Records: records(z(1, 1), z(1, 3))},
		"too late":  {OK: true, Records: records(z(1, 2), z(1, 3))},
		"unusable":  {},
		"no record": {OK: true},
	} {
		s := newSolo(t, stored(z(1, 4), z(1, 5)))
		s.leads()
		s.step(up(3), hello(3, 1))
		s.want("read-log 1.1 to 1.4 for link 3", ackEpoch(3, z(1, 1), 1))
		read.Kind, read.Link = zab.EventLogRead, 3
		if got := s.step(read); !strings.HasPrefix(got, "link 3 <- SNAP 1.5; send-snapshot 1.5 link 3") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestALearnerBehindTheMemoryIsSynchronizedFromTheLog(t *testing.T) {
	s := newSolo(t, stored(z(1, 4), z(1, 5)))
	s.leads()
	s.step(up(3), hello(3, 1))
	s.step(ackEpoch(3, z(1, 2), 1))
	s.want("link 3 <- DIFF 1.5; link 3 <- PROPOSAL 1.3; link 3 <- COMMIT 1.3; link 3 <- PROPOSAL 1.4; link 3 <- COMMIT 1.4; "+
		"link 3 <- PROPOSAL 1.5; link 3 <- COMMIT 1.5; link 3 <- NEWLEADER epoch=2",
		zab.Event{Kind: zab.EventLogRead, Link: 3, OK: true, Records: records(z(1, 2), z(1, 3), z(1, 4))})
}

// ZOOKEEPER-2355: the zxid in DIFF is not the zxid of the learner's data.
func TestZK2355DiffDoesNotMoveTheLearner(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	s.follows(2)
	s.step(said(zab.KindDiff, z(1, 9)))
	if s.p.Last() != z(1, 1) {
		t.Errorf("last is %s", zab.FormatZxid(s.p.Last()))
	}
}

// A Java leader takes the zxid of SNAP when it writes the snapshot, after it has begun to
// forward: transactions that the snapshot contains are sent again.
func TestWhatTheSnapshotHasMayComeAgain(t *testing.T) {
	s := newSolo(t, stored())
	s.follows(1)
	s.step(said(zab.KindSnap, z(1, 2)))
	s.want("", said(zab.KindProposal, z(1, 1)), said(zab.KindCommit, z(1, 1)), said(zab.KindProposal, z(1, 2)), said(zab.KindProposal, z(1, 3)))
	s.want("save-snapshot 1.2; current=1", said(zab.KindNewLeader, z(1, 0)))
	s.step(s.done())
	s.want("link 100 <- ACK 1.0; append 1.3; SERVE epoch 1; sync", said(zab.KindUpToDate, zk.NoZxid))
	s.want("deliver 1.3", said(zab.KindCommit, z(1, 2)), said(zab.KindCommit, z(1, 3)))
}

// ZOOKEEPER-1699: while the ensemble changes, quorums of both the old and the new one must have
// each proposal.
func TestZK1699AReconfigNeedsBothQuorums(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(up(4), on(4, zab.Message{Kind: zab.KindFollowerInfo, Hello: zab.Hello{Server: 4}}))
	s.step(ackEpoch(4, 0, 0))
	s.step(ack(4, z(1, 0)))
	change := propose(z(1, 1))[0]
	change.Config = &zab.Config{Version: int64(z(1, 1)), Quorum: quorum.NewMajority(1, 4, 5)}
	s.step(change)
	s.want("", s.done())
	s.want("", ack(2, z(1, 1)))
	s.want("link 2 <- COMMITANDACTIVATE 1.1; link 4 <- COMMITANDACTIVATE 1.1; deliver 1.1; activate 1.1 leader 1",
		ack(4, z(1, 1)))
}

// A learner that comes back has one link: an ack that is still on its way on the old link may
// be for a record that is truncated now. A hello alone does not close the old link, because
// anybody may send one in the name of a learner.
func TestTheOldLinkOfALearnerIsClosedBeforeItsHistoryIsChanged(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.want("link 5 <- LEADERINFO epoch=1", up(5),
		on(5, zab.Message{Kind: zab.KindFollowerInfo, Zxid: z(1, 0), Hello: zab.Hello{Server: 2}}))
	s.want("close link 2; link 5 <- DIFF 0.0; link 5 <- NEWLEADER epoch=1", ackEpoch(5, 0, 0))
	s.step(propose(z(1, 1))...)
	s.step(s.done())
	s.want("", ack(2, z(1, 1)))
}

// Connections that have failed, or somebody in the learner's name, may have sent a hello
// before: all these links end with the old one.
func TestAllOldLinksOfALearnerAreClosed(t *testing.T) {
	s := newSolo(t, stored())
	says := func(link zab.LinkID) []zab.Event {
		return []zab.Event{up(link), on(link, zab.Message{Kind: zab.KindFollowerInfo, Zxid: z(1, 0), Hello: zab.Hello{Server: 2}})}
	}
	s.leads()
	s.step(zab.Event{Kind: zab.EventLinkDown, Link: 2})
	for link := zab.LinkID(5); link <= 8; link++ { // 5 and 6 send nothing more
		s.step(says(link)...)
	}
	s.step(ackEpoch(7, 0, 0))
	s.step(ack(7, z(1, 0)))
	s.step(says(9)...)
	got := s.step(ackEpoch(9, 0, 0))
	s.step(propose(z(1, 1))...)
	s.step(s.done())
	if late := s.step(ack(7, z(1, 1))); late != "" {
		t.Errorf("an ack on an old link counts: %s, after %s", late, got)
	}
}

// ZOOKEEPER-2959: a server that observes is in no quorum, even if it has a vote.
func TestZK2959ObserversAreNotCounted(t *testing.T) {
	s := newSolo(t, stored())
	s.want("", elected(1), up(2), on(2, zab.Message{Kind: zab.KindObserverInfo, Hello: zab.Hello{Server: 2}}))
	s.want("accepted=1", up(3), hello(3, 0))
	s.step(s.done())
	s.want("", ackEpoch(2, 0, 0))
	s.step(ackEpoch(3, 0, 0))
	s.step(s.done())
	s.want("", ack(2, z(1, 0)))
	s.want("SERVE epoch 1; link 2 <- UPTODATE; link 3 <- UPTODATE", ack(3, z(1, 0)))
}

// ZOOKEEPER-1675, and the guarantee that a sync has always given.
func TestASyncWaitsForWhatWasProposedBeforeAndForAQuorum(t *testing.T) {
	pong := on(2, zab.Message{Kind: zab.KindPing})
	s := newSolo(t, stored())
	s.leads()
	s.step(propose(z(1, 1))...)
	s.want("link 2 <- PING 1.1", zab.Event{Kind: zab.EventSync, Link: 2})
	s.want("", pong)
	s.step(s.done())
	s.want("link 2 <- COMMIT 1.1; deliver 1.1; link 2 <- SYNC", ack(2, z(1, 1)))
	s.want("link 2 <- PING 1.1", zab.Event{Kind: zab.EventSync})
	s.want("synced", pong)
}

// A server of Apache's has one queue for writes and syncs. So a sync must be answered before
// the commit of anything that was proposed after it, even if a quorum has that proposal first.
func TestNothingThatCameAfterASyncIsCommittedBeforeItsAnswer(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(up(3), hello(3, 0))
	s.step(ackEpoch(3, 0, 0))
	s.step(ack(3, z(1, 0)))
	s.want("link 2 <- PING 1.0; link 3 <- PING 1.0", zab.Event{Kind: zab.EventSync, Link: 2})
	s.step(propose(z(1, 1))...)
	s.step(s.done())
	s.want("", ack(3, z(1, 1)))
	s.want("link 2 <- SYNC; link 2 <- COMMIT 1.1; link 3 <- COMMIT 1.1; deliver 1.1", on(3, zab.Message{Kind: zab.KindPing, Zxid: z(1, 0)}))
}

// Such an ack would count for a record that is proposed later and is not on the learner's disk.
func TestAckOfWhatWasNeverSentIsRefused(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.want("close link 2", ack(2, z(1, 5)))
}

// A learner that has lost its history confirms nobody else's.
func TestLearnerWithoutAHistoryDoesNotCountInDiscovery(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	s.step(elected(1), up(2), hello(2, 1))
	s.step(s.done())
	s.want("", ackEpoch(2, zk.NoZxid, 0))
	s.want("close link 2; LEAVE: no quorum of ACKEPOCH; look", s.wait(2001))
}

// Two servers with the same number, by a mistake of configuration, do not have two votes.
func TestALearnerWithTheLeadersOwnNumberIsRefused(t *testing.T) {
	s := newSolo(t, stored())
	s.step(elected(1), up(2))
	s.want("close link 2", on(2, zab.Message{Kind: zab.KindFollowerInfo, Hello: zab.Hello{Server: 1}}))
}

// Messages come from other servers. Whatever a message says, and whenever it comes, a peer may
// drop the link or leave its role, but it must not stop.
func TestNoMessageStopsAPeer(t *testing.T) {
	values := []zk.Zxid{-1, 0, 1, z(1, 0), z(1, 1), z(1, 2), z(1, 3), z(2, 0), z(2, 1), z(2, 2), z(3, 1), z(1<<31, 0), 1<<63 - 1, -1 << 63}
	var state uint64 = 1
	below := func(n int) int {
		state = state*6364136223846793005 + 1442695040888963407
		return int(state>>33) % n
	}
	for range 8_000 {
		s := newSoloOf(t, zab.Options{Observer: below(4) == 0, HistoryMax: 1}, stored(z(1, 1), z(1, 2)))
		switch below(4) {
		case 0:
			s.leads()
		case 1:
			s.follows(2)
		case 2:
			s.serves(2)
		default:
			s.step(elected(quorum.ID(1 + below(2))))
			s.step(up(toLeader))
		}
		s.step(up(2), up(3))
		for range 25 {
			m := zab.Message{Kind: zab.Kind(below(21)), Zxid: values[below(len(values))], Epoch: int64(below(4) - 1)}
			m.Hello.Server = quorum.ID(below(5) - 1)
			if below(3) == 0 { // further along, so that all stages are reached
				m.Kind = zab.KindLeaderInfo + zab.Kind(below(2))
			}
			link := []zab.LinkID{2, 3, toLeader}[below(3)]
			s.step(on(link, m))
			switch below(8) {
			case 0, 1, 2, 3:
				s.step(s.done())
			case 4:
				s.step(zab.Event{Kind: zab.EventSync}, s.wait(100))
			case 5:
				if s.p.State() == zab.Leading && s.p.Phase() == zab.Broadcast {
					s.step(propose(s.p.NextZxid())...)
				}
			}
		}
	}
}

// A learner that claims no history may have a log that it cannot truncate. A leader whose own
// history is empty must not consider the two equal.
func TestServerThatClaimsNothingIsSentEverything(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	accepted, _ := s.p.Epochs()
	s.step(up(3), hello(3, accepted))
	s.want("link 3 <- SNAP 0.0; send-snapshot 0.0 link 3; link 3 <- NEWLEADER epoch=1", ackEpoch(3, 0, zab.NoEpoch))
}

// A server of another ensemble, a damaged file or a stranger claims to have accepted the last
// epoch but one. If a leader trusted that, it would be elected again in the last epoch, a
// quorum would store it, and nobody could ever lead again, not even after a restart.
func TestOneHelloDoesNotUseUpTheEpochs(t *testing.T) {
	const jump, step = 1 << 20, 1024
	for _, c := range []struct {
		accepted       uint32
		leaves, gather bool
	}{{2 + step, true, true}, {3 + step, false, true}, {2 + jump, false, true}, {3 + jump, false, false}, {0x7ffffffe, false, false}, {0x7fffffff, false, false}} {
		s := newSolo(t, stored(z(1, 1)))
		s.leads()
		s.step(up(3), hello(3, c.accepted))
		if left := s.p.State() != zab.Leading; left != c.leaves {
			t.Errorf("a learner has accepted %#x: the leader of epoch 2 has left: %v", c.accepted, left)
		}
		s = newSolo(t, stored(z(1, 1)))
		said := s.step(elected(1), up(2), hello(2, c.accepted-1))
		if closed := strings.Contains(said, "close link 2"); closed == c.gather {
			t.Errorf("a learner has accepted %#x: its link is closed: %v", c.accepted-1, closed)
		}
		if took, _ := s.p.Epochs(); !c.gather && took != 1 || c.gather && s.step(s.done()) == "" {
			t.Errorf("a learner has accepted %#x: the leader that gathers takes %#x", c.accepted-1, took)
		}
	}
}

// A stranger sends hellos again and again, in the name of a follower that has promised a later
// epoch. Only few leaderships may end by that within the time of an election, and the epochs
// may grow only a little.
func TestHellosOfStrangersEndFewLeaderships(t *testing.T) {
	const leaderships = 10
	s := newSolo(t, stored(z(1, 1)))
	s.nowMs = 1_000_000
	first, _ := s.p.Epochs()
	yielded := 0
	for i := range leaderships {
		if yielded == 3 && i == leaderships-1 {
			s.wait(initMs)
		}
		mine, stranger := zab.LinkID(100+10*i), zab.LinkID(101+10*i)
		if i > 0 {
			s.step(s.done())
		}
		accepted, _ := s.p.Epochs()
		s.step(elected(1), up(mine), on(mine, zab.Message{Kind: zab.KindFollowerInfo, Zxid: z(accepted, 0), Hello: zab.Hello{Server: 2}}))
		s.step(s.done())
		accepted, _ = s.p.Epochs()
		s.step(up(stranger), on(stranger, zab.Message{Kind: zab.KindFollowerInfo, Zxid: z(accepted+1000, 0), Hello: zab.Hello{Server: 3}}))
		if s.p.State() != zab.Leading {
			yielded++
			continue
		}
		s.step(zab.Event{Kind: zab.EventStop})
	}
	if yielded != 4 {
		t.Errorf("the leader has yielded %d times, expected 3 within the time of one election, and once after that", yielded)
	}
	if last, _ := s.p.Epochs(); last > first+leaderships*1100 {
		t.Errorf("from epoch %d to %d in %d leaderships", first, last, leaderships)
	}
}

// Each of many strangers claims as much as is allowed, above the claim of the one before.
func TestManyHellosDoNotUseUpTheEpochs(t *testing.T) {
	const jump = 1 << 20
	s := newSolo(t, stored(z(1, 1)))
	s.step(elected(1))
	for i := range uint32(64) {
		stranger := zab.LinkID(200 + i)
		s.step(up(stranger), on(stranger, zab.Message{Kind: zab.KindObserverInfo, Zxid: z(1+(i+1)*(jump-1), 0),
			Hello: zab.Hello{Server: quorum.ID(100 + i)}}))
	}
	s.step(up(2), hello(2, 1))
	s.step(s.done())
	if took, _ := s.p.Epochs(); took < 2 || took > 2+jump {
		t.Errorf("after the hellos of 64 strangers the leader takes epoch %#x", took)
	}
}

// A server that was busy for longer than syncLimit notices that first, and then the messages
// that arrived meanwhile. A server whose messages wait is not silent.
func TestNobodyIsSilentWhoseMessagesWait(t *testing.T) {
	const behindMs = 1500 // syncLimit is 1000 ms
	for _, lagMs := range []int64{behindMs, 0} {
		leader := newSolo(t, stored(z(1, 1)))
		leader.leads()
		leader.p.Lag(lagMs)
		leader.step(leader.wait(behindMs), on(2, zab.Message{Kind: zab.KindPing, Zxid: z(2, 0)}))
		if leads := leader.p.State() == zab.Leading; leads != (lagMs > 0) {
			t.Errorf("a leader that is %d ms behind leads: %v", lagMs, leads)
		}
		follower := newSolo(t, stored(z(1, 1)))
		follower.serves(2)
		follower.p.Lag(lagMs)
		follower.step(follower.wait(behindMs), said(zab.KindPing, z(2, 0)))
		if follows := follower.p.State() == zab.Following; follows != (lagMs > 0) {
			t.Errorf("a follower that is %d ms behind follows: %v", lagMs, follows)
		}
	}
}

// Two steps in the same millisecond: the first is behind, the second has looked at all
// messages. The second has something to do by the clock, and must do it. Otherwise its alarm
// would ring until the next millisecond.
func TestStepThatIsNoLongerBehindLooksAtTheClock(t *testing.T) {
	follower := newSolo(t, stored(z(1, 1)))
	follower.serves(2)
	follower.p.Lag(1500) // syncLimit is 1000 ms
	tick := follower.wait(1500)
	follower.step(tick)
	if at, wanted := follower.p.WakeMs(); follower.p.State() != zab.Following || !wanted || at <= follower.nowMs {
		t.Fatalf("behind, it wants a step at %d ms, and it is %d", at, follower.nowMs)
	}
	follower.p.Lag(0)
	follower.step()
	if follower.p.State() == zab.Following {
		at, _ := follower.p.WakeMs()
		t.Errorf("it follows a leader that is silent, and wants a step at %d ms, when it is %d", at, follower.nowMs)
	}
}

// The records that a learner lacks are longer than a link holds: a DIFF would end the link
// again and again.
func TestLearnerThatLacksTooMuchGetsASnapshot(t *testing.T) {
	all := stored(z(1, 1), z(1, 2), z(1, 3))
	for i := range all.Recent {
		all.Recent[i].Payload = make([]byte, 1000)
	}
	for last, want := range map[zk.Zxid]string{z(1, 2): "DIFF", z(1, 1): "SNAP"} {
		s := newSoloOf(t, zab.Options{HistoryBytes: 1900}, all)
		s.leads()
		s.step(up(3), hello(3, 1))
		if got := s.step(ackEpoch(3, last, 1)); !strings.Contains(got, "link 3 <- "+want) {
			t.Errorf("with %v: %.200s", last, got)
		}
	}
}

// The records that recovery has read are kept within the limits of the memory from the start,
// not only from the first commit: there may be none before a learner is synchronized.
func TestMemoryIsWithinItsLimitsFromTheStart(t *testing.T) {
	all := stored(z(1, 1), z(1, 2), z(1, 3), z(1, 4), z(1, 5), z(1, 6))
	for i := range all.Recent {
		all.Recent[i].Payload = make([]byte, 1000)
	}
	for what, o := range map[string]zab.Options{"bytes": {HistoryBytes: 2000}, "records": {HistoryMax: 2}} {
		t.Run(what, func(t *testing.T) {
			s := newSoloOf(t, o, all)
			s.leads()
			s.step(up(3), hello(3, 1))
			s.want("read-log 1.2 to 1.5 for link 3", ackEpoch(3, z(1, 2), 1))
		})
	}
}

// The memory stays within its limits while a server leads.
func TestMemoryIsWithinItsLimitsForever(t *testing.T) {
	for what, o := range map[string]zab.Options{"bytes": {HistoryBytes: 2000}, "records": {HistoryMax: 2}} {
		t.Run(what, func(t *testing.T) {
			s := newSoloOf(t, o, stored())
			s.leads()
			for n := uint32(1); n <= 12; n++ {
				proposed := propose(z(1, n))
				proposed[0].Record.Payload = make([]byte, 1000)
				s.step(proposed...)
				s.step(s.done(), ack(2, z(1, n)))
			}
			s.step(up(3), hello(3, 1))
			s.want("read-log 1.7 to 1.11 for link 3", ackEpoch(3, z(1, 7), 1))
		})
	}
}

// A snapshot may take much longer than initLimit. As long as it moves, neither end counts as
// silent; when it has stopped, both do after initLimit.
func TestSnapshotThatMovesArrives(t *testing.T) {
	const initMs = 2000
	leader := newSolo(t, stored(z(1, 1), z(1, 2)))
	leader.leads()
	leader.step(up(3), hello(3, 1))
	if got := leader.step(ackEpoch(3, 0, 0), zab.Event{Kind: zab.EventLogRead, Link: 3}); !strings.Contains(got, "send-snapshot") {
		t.Fatal(got)
	}
	closed := func(moves bool) bool {
		events := []zab.Event{leader.wait(200), on(2, zab.Message{Kind: zab.KindPing, Zxid: z(2, 0)})}
		if moves {
			events = append(events, zab.Event{Kind: zab.EventMoves, Link: 3})
		}
		return strings.Contains(leader.step(events...), "close link 3")
	}
	learner := newSolo(t, zab.Stored{})
	learner.follows(1)
	learner.step(said(zab.KindSnap, z(1, 2)))
	for range 5 * initMs / 200 {
		if closed(true) {
			t.Fatal("the leader has closed the link of a snapshot that moves")
		}
		learner.step(learner.wait(200), zab.Event{Kind: zab.EventMoves, Link: toLeader})
		if s := learner.p.State(); s != zab.Following {
			t.Fatalf("a learner to which a snapshot comes is %v", s)
		}
	}
	gone := false
	for range initMs/200 + 1 {
		gone = gone || closed(false)
		learner.step(learner.wait(200))
	}
	if !gone || learner.p.State() != zab.Looking {
		t.Errorf("the snapshot has stopped: the link is closed %v, the learner is %v", gone, learner.p.State())
	}
}

// The records that a learner lacks may take as long, on a slow link. Once the learner has
// acknowledged them, moving bytes no longer prove that it is alive: it can send messages.
func TestHistoryThatMovesArrives(t *testing.T) {
	const initMs, syncMs = 2000, 1000
	leader := newSolo(t, stored(z(1, 1), z(1, 2)))
	leader.leads()
	leader.step(up(3), hello(3, 1))
	if got := leader.step(ackEpoch(3, z(1, 1), 1)); !strings.Contains(got, "link 3 <- DIFF") {
		t.Fatal(got)
	}
	closed := func() bool {
		return strings.Contains(leader.step(leader.wait(200), on(2, zab.Message{Kind: zab.KindPing, Zxid: z(2, 0)}),
			zab.Event{Kind: zab.EventMoves, Link: 3}), "close link 3")
	}
	for range 5 * initMs / 200 {
		if closed() {
			t.Fatal("the leader has closed the link of a history that moves")
		}
	}
	leader.step(ack(3, z(2, 0)))
	for range syncMs/200 + 1 {
		if closed() {
			return
		}
	}
	t.Error("a learner that has everything is silent, and its link stays")
}

// What a follower sends to its leader, such as requests of its clients, moves as long as there is
// space for it, even if the leader is frozen. The follower leaves it all the same.
func TestLeaderIsSilentWhateverItIsSent(t *testing.T) {
	const syncMs = 1000
	s := newSolo(t, stored(z(1, 1)))
	s.serves(2)
	for range syncMs/200 + 1 {
		s.step(zab.Event{Kind: zab.EventMoves, Link: toLeader}, s.wait(200))
	}
	if state := s.p.State(); state != zab.Looking {
		t.Errorf("the leader is silent, and the follower is %v", state)
	}
}

// A new leader waits for the ack of a learner to which a snapshot moves.
func TestNewLeaderWaitsForASnapshotThatMoves(t *testing.T) {
	s := newSolo(t, stored(z(1, 1), z(1, 2)))
	s.step(elected(1), up(2), hello(2, 1))
	s.step(s.done())
	s.step(ackEpoch(2, 0, 0))
	if got := s.step(s.done(), zab.Event{Kind: zab.EventLogRead, Link: 2}); !strings.Contains(got, "send-snapshot") {
		t.Fatal(got)
	}
	for range 50 {
		s.step(s.wait(200), zab.Event{Kind: zab.EventMoves, Link: 2})
	}
	if s.p.State() != zab.Leading {
		t.Error("the leader has given up")
	}
}

// Of five servers two are down, and one takes a snapshot for longer than initLimit. The one
// that already has the history waits with the leader. It sends nothing meanwhile, but it is
// needed and must not count as silent.
func TestLearnerThatWaitsForTheSnapshotOfAnotherIsNotSilent(t *testing.T) {
	s := newSolo(t, stored(z(1, 1), z(1, 2)))
	five := zab.Config{Version: 1, Quorum: quorum.NewMajority(1, 2, 3, 4, 5)}
	s.step(zab.Event{Kind: zab.EventConfig, OK: true, Config: &five})
	s.step(elected(1), up(2), hello(2, 1), up(3), hello(3, 1))
	s.step(s.done())
	s.step(ackEpoch(2, z(1, 2), 1), ackEpoch(3, 0, 0))
	if got := s.step(s.done(), zab.Event{Kind: zab.EventLogRead, Link: 3}); !strings.Contains(got, "send-snapshot") {
		t.Fatal(got)
	}
	s.step(ack(2, z(2, 0)))
	for range 5 * initMs / 200 {
		if got := s.step(s.wait(200), zab.Event{Kind: zab.EventMoves, Link: 3}); strings.Contains(got, "close") {
			t.Fatalf("while a snapshot moves: %s", got)
		}
	}
	if got := s.step(ack(3, z(2, 0))); !strings.Contains(got, "SERVE epoch 2") || !strings.Contains(got, "link 2 <- UPTODATE") {
		t.Errorf("with the snapshot taken: %q", got)
	}
}

// A leader that lacks the quorum waits for servers that vote, not for a server without a vote
// that takes a snapshot: meanwhile others could be elected.
func TestNewLeaderDoesNotWaitForTheSnapshotOfAServerWithoutAVote(t *testing.T) {
	s := newSolo(t, stored(z(1, 1), z(1, 2)))
	s.step(elected(1), up(2), hello(2, 1), up(4), hello(4, 1))
	s.step(s.done())
	s.step(ackEpoch(2, z(1, 2), 1), ackEpoch(4, 0, 0))
	if got := s.step(s.done(), zab.Event{Kind: zab.EventLogRead, Link: 4}); !strings.Contains(got, "send-snapshot") {
		t.Fatal(got)
	}
	s.step(zab.Event{Kind: zab.EventLinkDown, Link: 2})
	for range initMs/200 + 2 {
		s.step(s.wait(200), zab.Event{Kind: zab.EventMoves, Link: 4})
	}
	if s.p.State() != zab.Looking {
		t.Errorf("after initLimit without the quorum the leader is %v", s.p.State())
	}
}

// The time that counts as silence may be less than a tick: a late ping is no reason to leave a
// leader. There was an idle ensemble of three that held an election every few seconds.
func TestPingsComeThriceWithinWhatIsSilence(t *testing.T) {
	for _, test := range []struct{ tickMs, syncMs, most int64 }{
		{2000, 1000, 1000 / 3}, {2000, 500, 500 / 3}, {2000, 10_000, 1000}, {200, 1000, 100}, {2, 1, 1}} {
		options := zab.Options{TickMs: test.tickMs, SyncMs: test.syncMs}
		if ms := options.PingMs(); ms < 1 || ms > test.most {
			t.Errorf("tick %d, silence %d: a ping each %d ms, not %d", test.tickMs, test.syncMs, ms, test.most)
		}
	}
	const silenceMs = 60 // of a tick of 200 ms
	s := newSoloOf(t, zab.Options{SyncMs: silenceMs}, stored(z(1, 1)))
	s.leads()
	for range 10 {
		sent := ""
		for range silenceMs / 2 {
			sent += s.step(s.wait(1), on(2, zab.Message{Kind: zab.KindPing, Zxid: z(2, 0)}))
		}
		if !strings.Contains(sent, "PING") || s.p.State() != zab.Leading {
			t.Fatalf("within half of what is silence the leader, %v, has sent %q", s.p.State(), sent)
		}
	}
}

// Two servers with the same number, such as a machine that was copied with its myid. The second
// took the place of the first, then the first that of the second, fifty times a second, with
// all their clients. Now the one that has the place keeps it as long as it serves and the other
// asks for it. A single process whose links are lost again and again is let in each time.
func TestTwoServersWithOneNumberDoNotEndEachOther(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	asks := func(link zab.LinkID, life int64, want string) {
		t.Helper()
		s.want(fmt.Sprintf("link %d <- LEADERINFO epoch=1", link), up(link),
			on(link, zab.Message{Kind: zab.KindFollowerInfo, Zxid: z(1, 0), Leader: 1, Epoch: life, Hello: zab.Hello{Server: 2, Named: true}}))
		s.want(want, ackEpoch(int(link), 0, 0))
	}
	enters := func(link zab.LinkID, life int64, instead string) {
		t.Helper()
		asks(link, life, fmt.Sprintf("%slink %d <- DIFF 0.0; link %d <- NEWLEADER epoch=1", instead, link, link))
		s.want(fmt.Sprintf("link %d <- UPTODATE", link), ack(int(link), z(1, 0)))
	}
	pings := func(link zab.LinkID) {
		t.Helper()
		s.nowMs += 400
		s.step(on(link, zab.Message{Kind: zab.KindPing}))
	}
	enters(3, 77, "close link 2; ")
	enters(5, 88, "close link 3; ")
	for link := zab.LinkID(6); link < 20; link++ { // for longer than any limit
		pings(5)
		asks(link, 77, fmt.Sprintf("close link %d", link))
	}
	s.step(zab.Event{Kind: zab.EventLinkDown, Link: 5})
	enters(20, 77, "")
	for range 3 {
		pings(20)
	}
	enters(21, 88, "close link 20; ") // a link that may be dead
	for range 3 {
		pings(21)
	}
	enters(22, 77, "close link 21; ")
	for link := zab.LinkID(23); link < 30; link++ {
		enters(link, 77, fmt.Sprintf("close link %d; ", link-1))
	}
	for link := zab.LinkID(30); link < 36; link++ { // of Apache's
		enters(link, 0, fmt.Sprintf("close link %d; ", link-1))
	}
}
