package zab_test

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// proposed is the event that the log has a reconfig of five servers at a zxid.
func proposed(zxid zk.Zxid) zab.Event {
	return zab.Event{Kind: zab.EventConfig, Config: &zab.Config{Version: int64(zxid), Quorum: quorum.NewMajority(1, 2, 3, 4, 5)}}
}

// A log that is truncated just after a reconfig still has it.
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

// If a history is replaced, the reconfig in it is given up, whatever its number.
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

// A record that was delivered because others have it on disk stays in memory until it is on
// this server's disk, too.
func TestFollowerAcknowledgesWhatWasCommittedWithoutIt(t *testing.T) {
	s := newSoloOf(t, zab.Options{HistoryMax: 1}, stored())
	s.serves(1)
	for n := uint32(1); n <= 4; n++ {
		s.step(said(zab.KindProposal, z(1, n)), said(zab.KindCommit, z(1, n)))
	}
	s.want("link 100 <- ACK 1.1; link 100 <- ACK 1.2; link 100 <- ACK 1.3; link 100 <- ACK 1.4", s.done())
}

// Learners that have come back and have not yet taken over the history are no quorum.
func TestLeaderWhoseFollowersAreNotSyncedLeaves(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(zab.Event{Kind: zab.EventLinkDown, Link: 2}, up(3), hello(3, 1))
	s.step(ackEpoch(3, 0, 1))
	s.want("close link 3; LEAVE: quorum lost; look", s.wait(200))
}

// A server that cannot truncate its log claims no history. It counts for a leader that has at
// least as much as it has, and for no other.
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

// An UPTODATE before NEWLEADER is acknowledged comes from no leader: the history is not on
// disk.
func TestLearnerServesNothingBeforeItsHistoryIsDurable(t *testing.T) {
	s := newSolo(t, stored())
	s.follows(1)
	s.step(said(zab.KindDiff, z(0, 0)), said(zab.KindProposal, z(1, 1)), said(zab.KindCommit, z(1, 1)), said(zab.KindNewLeader, z(1, 0)))
	s.want("close link 100; LEAVE: illegal message", said(zab.KindUpToDate, zk.NoZxid))
}

// A record after a gap, or of an earlier epoch, never gets into the log.
func TestLeaderThatSendsARecordOutOfOrderIsLeft(t *testing.T) {
	for _, wrong := range []zk.Zxid{z(2, 2), z(2, 4), z(1, 1), z(1, 4), z(3, 2), z(4, 1)} {
		s := newSolo(t, stored(z(2, 1), z(2, 2)))
		s.follows(3)
		s.want("", said(zab.KindDiff, z(2, 2)))
		s.want("close link 100; LEAVE: gap in proposals; look", said(zab.KindProposal, wrong))
	}
	for _, next := range []zk.Zxid{z(2, 3), z(3, 1)} {
		s := newSolo(t, stored(z(2, 1), z(2, 2)))
		s.follows(3)
		s.want("", said(zab.KindDiff, z(2, 2)), said(zab.KindProposal, next))
	}
}

// Only observers are sent INFORM. A leader that sends it to a follower takes it for an observer.
func TestFollowerThatIsInformedLeaves(t *testing.T) {
	s := newSolo(t, stored())
	s.follows(1)
	s.step(said(zab.KindDiff, z(0, 0)))
	s.want("close link 100; LEAVE: illegal message; look", said(zab.KindInform, z(1, 1)))
}

// A learner that answers a question that it was not asked has promised nothing.
func TestAckOfAnEpochThatWasNotAskedForEndsTheLink(t *testing.T) {
	s := newSolo(t, stored())
	s.step(elected(1), up(2), hello(2, 0)) // the promise is on its way to the disk
	s.want("close link 2", ackEpoch(2, 0, 0))
}

// A server that could not truncate its log has a usable one as soon as the leader's state is on
// disk.
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

// The epoch that an observer has promised does not keep it from a leader, unless that leader is
// older than the one whose history it has.
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

// A learner whose tree was wrong is sent the whole state once, and counts as right after that.
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

// A leader whose tree differs from those of a quorum gives it up, but not again within ten minutes.
func TestLeaderGivesItsTreeUpOnceInAWhile(t *testing.T) {
	const nowMs = 10_000_000
	for divergedMs, gives := range map[int64]bool{0: true, nowMs - 1000: false, nowMs - 599_999: false, nowMs - 600_000: true} {
		s := newSoloOf(t, zab.Options{DivergedMs: divergedMs}, stored())
		s.nowMs = nowMs
		s.leads()
		s.step(up(3), hello(3, 0))
		s.step(ackEpoch(3, 0, 0))
		s.step(ack(3, z(1, 0)))
		s.step(propose(z(1, 1))...)
		s.step(s.done(), ack(2, z(1, 1)), ack(3, z(1, 1)))
		differs := func(id zab.LinkID) zab.Event {
			return on(id, zab.Message{Kind: zab.KindPing, Zxid: zk.NoZxid - 2})
		}
		if got := s.step(differs(2), differs(3)); strings.Contains(got, "LEAVE: tree differs") != gives {
			t.Errorf("it gave its tree up %d ms ago: %s", nowMs-divergedMs, got)
		}
	}
}

// No zxid can carry such an epoch.
func TestLeaderOfAnEpochThatCannotBeIsLeft(t *testing.T) {
	s := newSolo(t, stored())
	s.step(elected(2))
	s.step(up(toLeader))
	s.want("close link 100; LEAVE: illegal message; look", said(zab.KindLeaderInfo, z(1<<31, 0)))
}

// A leader lets in nobody who knows a newer ensemble than it does: this leader may no longer be
// a member of the ensemble that counts.
func TestLeaderOfAnOlderEnsembleTakesNoLearnerOfANewerOneIn(t *testing.T) {
	s := newSolo(t, stored())
	e := hello(2, 0)
	e.Message.Hello.ConfigVersion = 1
	s.want("close link 2", elected(1), up(2), e)
}

// The same ensemble is not newer, nor is an older one, nor the number of an epoch for a leader that
// takes part in no change: both have the same ensemble, from their files.
func TestLeaderOfTheSameEnsembleTakesTheLearnerIn(t *testing.T) {
	for _, c := range []struct {
		own, named zk.Zxid
		closed     bool
	}{{0, z(1, 0), false}, {0, z(1, 1), true}, {5, 5, false}, {5, 4, false}, {5, 6, true}, {5, z(1, 0), true}} {
		config := zab.Config{Version: int64(c.own), Quorum: quorum.NewMajority(1, 2, 3)}
		s := &solo{t: t, p: zab.New(zab.Options{ID: 1, TickMs: 200, InitMs: initMs, SyncMs: 1000}, config, stored())}
		e := hello(2, 0)
		e.Message.Hello.ConfigVersion = int64(c.named)
		if closed := strings.Contains(s.step(elected(1), up(2), e), "close link 2"); closed != c.closed {
			t.Errorf("the leader has %s, the learner %s: its link is closed: %v", c.own, c.named, closed)
		}
	}
}

// A standalone server that has used up the counter of its epoch begins the next one. That is on
// disk before the first record of it.
func TestStandaloneServerBeginsTheNextEpoch(t *testing.T) {
	s := newSoloOf(t, zab.Options{Solo: true, CounterMax: 4}, stored(z(2, 1)))
	for _, want := range []string{
		"append 2.2; sync", "append 2.3; sync", "accepted=3; current=3; append 3.1; sync", "append 3.2; sync",
	} {
		s.want(want, propose(s.p.NextZxid())...)
		s.step(s.done())
	}
}

// A follower whose disk is full says so when it is asked for nothing, and not before it serves: what it
// says to a leader that has not yet synchronized it is told again when it does serve.
func TestFollowerTellsOfItsFullDiskWhileItServes(t *testing.T) {
	full, free := zab.Event{Kind: zab.EventSpace}, zab.Event{Kind: zab.EventSpace, OK: true}
	s := newSolo(t, stored())
	s.want("", full)
	s.follows(1)
	s.want("", free)
	s.want("", full)
	s.step(said(zab.KindDiff, 0), said(zab.KindNewLeader, z(1, 0)))
	s.step(s.done())
	s.want("link 100 <- ACK 1.0; SERVE epoch 1; link 100 <- PING 4294967295.4294967294", said(zab.KindUpToDate, zk.NoZxid))
	s.want("link 100 <- PING 4294967295.4294967295", free)
	s.want("link 100 <- PING 4294967295.4294967294", full)
	s.want("", full)
}
