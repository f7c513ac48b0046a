package zab_test

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// proposed says that the log has a reconfig of five servers, of a zxid.
func proposed(zxid zk.Zxid) zab.Event {
	return zab.Event{Kind: zab.EventConfig, Config: &zab.Config{Version: int64(zxid), Quorum: quorum.NewMajority(1, 2, 3, 4, 5)}}
}

// A log that is truncated just after a reconfig has it still.
func TestReconfigAtTheEndOfATruncatedLogCounts(t *testing.T) {
	for _, test := range []struct {
		last   zk.Zxid
		enough string
	}{
		{z(1, 2), ""},
		{z(1, 1), "accepted=3"},
	} {
		s := newSolo(t, stored(z(1, 1), z(1, 2), z(1, 3)))
		s.step(proposed(z(1, 2)))
		s.follows(2)
		s.step(said(zab.KindTrunc, test.last))
		s.step(s.done())
		s.step(zab.Event{Kind: zab.EventLinkDown, Link: toLeader})
		s.want(test.enough, elected(1), up(2), hello(2, 2))
	}
}

// With a history that is replaced the reconfig in it is given up, whatever its number.
func TestReconfigOfAReplacedHistoryIsGivenUp(t *testing.T) {
	s := newSolo(t, stored(z(1, 1), z(1, 2), z(1, 3)))
	s.step(proposed(z(1, 2)))
	s.follows(2)
	s.step(said(zab.KindSnap, z(1, 8)), said(zab.KindNewLeader, z(2, 0)))
	s.step(s.done())
	s.step(said(zab.KindUpToDate, zk.NoZxid))
	s.step(zab.Event{Kind: zab.EventLinkDown, Link: toLeader})
	s.want("accepted=3", elected(1), up(2), hello(2, 2))
}

// What was delivered because others have it on disk stays in memory until this server has it, too.
func TestFollowerAcknowledgesWhatWasCommittedWithoutIt(t *testing.T) {
	s := newSoloOf(t, zab.Options{HistoryMax: 1}, stored())
	s.serves(1)
	for n := uint32(1); n <= 4; n++ {
		s.step(said(zab.KindProposal, z(1, n)), said(zab.KindCommit, z(1, n)))
	}
	s.want("link 100 <- ACK 1.1; link 100 <- ACK 1.2; link 100 <- ACK 1.3; link 100 <- ACK 1.4", s.done())
}

// Learners that have come again and have not taken the history over are no quorum.
func TestLeaderWhoseFollowersAreNotSyncedLeaves(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(zab.Event{Kind: zab.EventLinkDown, Link: 2}, up(3), hello(3, 1))
	s.step(ackEpoch(3, 0, 1))
	s.want("close link 3; LEAVE: quorum lost; look", s.wait(200))
}

// A server that cannot truncate its log says nothing of it. It counts for a leader that has no less,
// and for no other.
func TestServerThatNeedsASnapshotCountsForALeaderThatHasNoLess(t *testing.T) {
	for _, test := range []struct {
		last  zk.Zxid // of the leader, when it was elected
		epoch int64
		want  string
	}{
		{z(3, 5), 3, "link 100 <- ACKEPOCH last=0.0 current=3"},
		{z(3, 4), 3, "link 100 <- ACKEPOCH last=0.0 current=-1"},
		{z(3, 9), 2, "link 100 <- ACKEPOCH last=0.0 current=-1"},
		{z(2, 9), 4, "link 100 <- ACKEPOCH last=0.0 current=3"},
	} {
		disk := stored(z(3, 4), z(3, 5))
		disk.NeedSnapshot = true
		s := newSolo(t, disk)
		s.step(zab.Event{Kind: zab.EventElected, Server: 2, Epoch: test.epoch, Record: zab.Record{Zxid: test.last}})
		s.step(up(toLeader))
		s.step(said(zab.KindLeaderInfo, z(5, 0)))
		s.want(test.want, s.done())
	}
}

// UPTODATE before NEWLEADER is acknowledged is from no leader: the history is not on disk.
func TestLearnerServesNothingBeforeItsHistoryIsDurable(t *testing.T) {
	s := newSolo(t, stored())
	s.follows(1)
	s.step(said(zab.KindDiff, z(0, 0)), said(zab.KindProposal, z(1, 1)), said(zab.KindCommit, z(1, 1)), said(zab.KindNewLeader, z(1, 0)))
	s.want("close link 100; LEAVE: illegal message", said(zab.KindUpToDate, zk.NoZxid))
}

// A learner that answers what it was not asked has promised nothing.
func TestAckOfAnEpochThatWasNotAskedForEndsTheLink(t *testing.T) {
	s := newSolo(t, stored())
	s.step(elected(1), up(2), hello(2, 0)) // the promise is on its way to the disk
	s.want("close link 2", ackEpoch(2, 0, 0))
}

// A server that could not truncate its log has one again once the leader's state is on disk.
func TestServerNeedsASnapshotOnce(t *testing.T) {
	disk := stored(z(1, 1), z(1, 2))
	disk.NeedSnapshot = true
	s := newSolo(t, disk)
	s.follows(2)
	s.step(said(zab.KindSnap, z(1, 1)), said(zab.KindNewLeader, z(2, 0)))
	s.step(s.done())
	s.step(said(zab.KindUpToDate, zk.NoZxid))
	s.step(zab.Event{Kind: zab.EventLinkDown, Link: toLeader})
	s.step(elected(2))
	s.step(up(toLeader))
	s.want("link 100 <- ACKEPOCH last=1.1 current=-1", said(zab.KindLeaderInfo, z(2, 0)))
}

// What an observer has promised keeps it from no leader, but for one that is older than the one whose
// history it has.
func TestObserverFollowsNoOlderLeaderThanItHasFollowed(t *testing.T) {
	for _, test := range []struct {
		epoch uint32
		want  string
	}{
		{4, "link 100 <- ACKEPOCH last=3.1 current=-1"},
		{3, "link 100 <- ACKEPOCH last=3.1 current=-1"},
		{2, "close link 100; LEAVE: old leader; look"},
	} {
		disk := stored(z(3, 1))
		disk.Accepted = 5
		s := newSoloOf(t, zab.Options{Observer: true}, disk)
		s.step(elected(2))
		s.step(up(toLeader))
		s.want(test.want, said(zab.KindLeaderInfo, z(test.epoch, 0)))
	}
}

// A learner whose tree was wrong is sent the whole state once, and counts as one that is right then.
func TestWrongTreeIsReplacedOnce(t *testing.T) {
	s := newSolo(t, stored())
	joins := func(link int) string {
		e := on(zab.LinkID(link), zab.Message{Kind: zab.KindFollowerInfo, Zxid: z(1, 0), Hello: zab.Hello{Server: 2}})
		s.step(up(zab.LinkID(link)), e)
		got := s.step(ackEpoch(link, z(1, 1), 1))
		s.step(ack(link, z(1, 0)))
		return got
	}
	s.leads()
	s.step(up(3), hello(3, 0))
	s.step(ackEpoch(3, 0, 0))
	s.step(ack(3, z(1, 0)))
	s.step(propose(z(1, 1))...)
	s.step(s.done(), ack(2, z(1, 1)), ack(3, z(1, 1)))
	ping := func(id int, zxid zk.Zxid) zab.Event {
		return on(zab.LinkID(id), zab.Message{Kind: zab.KindPing, Zxid: zxid})
	}
	s.step(ping(2, zk.NoZxid-2))
	s.want("close link 2", ping(3, zab.PingSame(z(1, 1))))
	if got := joins(4); !strings.HasPrefix(got, "link 4 <- SNAP") {
		t.Errorf("it is sent %s", got)
	}
	s.step(zab.Event{Kind: zab.EventLinkDown, Link: 4})
	if got := joins(5); !strings.HasPrefix(got, "link 5 <- DIFF") {
		t.Errorf("it is sent %s after that", got)
	}
}

// A leader takes nobody in who knows a newer ensemble than it does: it may be in none that counts.
func TestLeaderOfAnOlderEnsembleTakesNoLearnerOfANewerOneIn(t *testing.T) {
	s := newSolo(t, stored())
	e := hello(2, 0)
	e.Message.Hello.ConfigVersion = 1
	s.want("close link 2", elected(1), up(2), e)
}
