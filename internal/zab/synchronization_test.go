package zab_test

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// The leader has 1.4 1.5 3.1 3.2 in memory, older records in its log, and leads
// epoch 5. The lines are those of docs/protocols/zab.md.
func TestTheChoiceOfSynchronization(t *testing.T) {
	const end = "; link 3 <- NEWLEADER epoch=5"
	sent := func(z string) string { return "; link 3 <- PROPOSAL " + z + "; link 3 <- COMMIT " + z }
	for _, c := range []struct {
		what string
		peer zk.Zxid
		want string
	}{
		{"where the leader is", z(3, 2), "link 3 <- DIFF 3.2" + end},
		{"a tail after all the leader has", z(3, 3), "link 3 <- TRUNC 3.2" + end},
		{"a tail of a later epoch", z(4, 2), "link 3 <- TRUNC 3.2" + end},
		{"led later and proposed nothing", z(4, 0), "link 3 <- SNAP 3.2; send-snapshot 3.2 link 3" + end},
		{"in memory", z(1, 5), "link 3 <- DIFF 3.2" + sent("3.1") + sent("3.2") + end},
		{"the oldest in memory", z(1, 4), "link 3 <- DIFF 3.2" + sent("1.5") + sent("3.1") + sent("3.2") + end},
		{"led between and proposed nothing", z(2, 0), "link 3 <- DIFF 3.2" + sent("3.1") + sent("3.2") + end},
		{"a tail of an epoch that ended", z(1, 6), "link 3 <- SNAP 3.2; send-snapshot 3.2 link 3" + end},
		{"before the memory", z(1, 2), "read-log 1.2 to 1.4 for link 3"},
		{"empty", 0, "read-log 0.0 to 1.4 for link 3"},
	} {
		t.Run(c.what, func(t *testing.T) {
			disk := stored(z(1, 4), z(1, 5), z(3, 1), z(3, 2))
			disk.Accepted = 4
			s := newSolo(t, disk)
			s.leads()
			s.step(up(3), helloOf(3, 4))
			s.want(c.want, ackEpoch(3, c.peer, 3))
		})
	}
}

// A server of Apache's whose log has more than its leader's cannot be told to truncate: it may
// have a snapshot of those transactions, or no record before them in its log. Nor can it be
// sent a state whose zxid is below its last record, because its next start would add that
// record. So it waits for a transaction of this epoch.
func TestLearnerOfApachesThatIsAheadIsSentALaterState(t *testing.T) {
	for _, c := range []struct{ last, peer zk.Zxid }{
		{z(2, 1), z(2, 2)}, {z(1, 1), z(2, 1)}, {z(2, 0), z(2, 1)}, {0, z(2, 1)},
	} {
		s := newSolo(t, zab.Stored{Accepted: 2, Current: 2, Last: c.last})
		s.leads()
		s.step(up(3), hello(3, 2))
		s.want("", ackEpoch(3, c.peer, 2))
		if !s.p.Holds() {
			t.Error("it does not say that a learner waits")
		}
		s.step(propose(z(3, 1))...)
		s.step(s.done())
		got := s.step(ack(2, z(3, 1)))
		if !strings.Contains(got, "link 3 <- SNAP 3.1; send-snapshot 3.1 link 3; link 3 <- NEWLEADER epoch=3") && !strings.Contains(got, "read-log") {
			t.Errorf("it is sent %s", got)
		}
		if s.p.Holds() {
			t.Error("it says that a learner waits")
		}
	}
}

// If there is no quorum without it, it is sent the best that there is; also if that becomes the
// case later.
func TestLearnerOfApachesThatIsAheadAndNeededDoesNotWait(t *testing.T) {
	disk := stored(z(1, 1))
	disk.Accepted, disk.Current = 2, 2
	for peer, want := range map[zk.Zxid]string{
		z(1, 2): "link 3 <- TRUNC 1.1; link 3 <- NEWLEADER epoch=3",
		z(2, 1): "link 3 <- SNAP 1.1; send-snapshot 1.1 link 3; link 3 <- NEWLEADER epoch=3",
	} {
		s := newSolo(t, disk)
		s.step(elected(1), up(3), hello(3, 2))
		s.step(s.done())
		s.step(ackEpoch(3, peer, 1))
		s.want(want, s.done())
		s = newSolo(t, disk)
		s.step(elected(1), up(2), hello(2, 2), up(3), hello(3, 2))
		s.step(s.done())
		s.step(ackEpoch(3, peer, 1), ackEpoch(2, z(1, 1), 2))
		s.want("link 2 <- DIFF 1.1; link 2 <- NEWLEADER epoch=3", s.done())
		s.want("", zab.Event{Kind: zab.EventLinkDown, Link: 2})
		if got := s.step(s.wait(100)); !strings.HasPrefix(got, want) {
			t.Errorf("it is sent %s", got)
		}
	}
}

// A server that has taken over the state of an epoch without transactions, as Apache's leaders
// send it, has no record at that zxid after which it could truncate. It can always truncate
// everything.
func TestNobodyIsToldToTruncateWhereNoRecordIs(t *testing.T) {
	for _, c := range []struct {
		last zk.Zxid
		want string
	}{
		{z(2, 0), "link 3 <- SNAP 2.0; send-snapshot 2.0 link 3"},
		{0, "link 3 <- TRUNC 0.0"},
	} {
		s := newSolo(t, zab.Stored{Accepted: 2, Current: 2, Last: c.last})
		s.leads()
		s.step(up(3), helloOf(3, 2))
		s.want(c.want+"; link 3 <- NEWLEADER epoch=3", ackEpoch(3, z(2, 1), 2))
	}
}

func TestSessionsArePassedBetweenLearnerAndLeader(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.want("link 2 <- PING 1.0", s.wait(100))
	touches := []zab.Touch{{Session: 7, TimeoutMs: 4000}}
	s.want("touch link 2", on(2, zab.Message{Kind: zab.KindPing, Touches: touches}))
	s.want("revalidate link 2", on(2, zab.Message{Kind: zab.KindRevalidate, Session: 7}))
	s.want("link 2 <- REVALIDATE", zab.Event{Kind: zab.EventRevalidated, Link: 2, Session: 7, OK: true})
	s.want("", zab.Event{Kind: zab.EventRevalidated, Link: 9, Session: 7})
	s.want("request link 2", on(2, zab.Message{Kind: zab.KindRequest, Request: &zab.Request{}}))

	s = newSolo(t, stored())
	s.serves(1)
	s.want("link 100 <- REVALIDATE", zab.Event{Kind: zab.EventRevalidate, Session: 7, TimeoutMs: 4000})
	s.want("revalidated", on(toLeader, zab.Message{Kind: zab.KindRevalidate, Session: 7, Valid: true}))
	s.want("link 100 <- REQUEST", zab.Event{Kind: zab.EventForward, Request: &zab.Request{}})
	s.want("synced", on(toLeader, zab.Message{Kind: zab.KindSync}))
}

func TestAPingWhileSynchronizingIsAHeartbeatAlone(t *testing.T) {
	s := newSolo(t, stored())
	s.follows(1)
	s.want("", s.wait(1900), said(zab.KindPing, 0))
	s.want("", s.wait(1900), said(zab.KindDiff, 0))
	s.want("close link 100; LEAVE: leader silent; look", s.wait(2001))
}

func TestALeaderDropsALearnerThatLeavesAProposalWithoutItsAck(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(up(3), hello(3, 0))
	s.step(ackEpoch(3, 0, 0))
	s.step(ack(3, z(1, 0)))
	s.step(propose(z(1, 1))...)
	s.step(s.done(), ack(2, z(1, 1)))
	for range 5 {
		s.step(s.wait(200), on(2, zab.Message{Kind: zab.KindPing}), on(3, zab.Message{Kind: zab.KindPing}))
	}
	s.want("close link 3", s.wait(1))
}
