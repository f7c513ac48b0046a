package zab_test

import (
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

// A server that has taken over the state of an epoch without transactions, as Apache's leaders send it, has no record
// there. Apache's learner that is told to truncate after a place that its log does not have keeps the first record
// behind it.
func TestNobodyIsToldToTruncateWhereNoRecordIs(t *testing.T) {
	for _, c := range []struct {
		last, peer zk.Zxid
		cumulative bool
		want       string
	}{
		{z(2, 0), z(2, 1), false, "link 3 <- SNAP 2.0; send-snapshot 2.0 link 3"},
		{z(2, 0), z(2, 1), true, "link 3 <- SNAP 2.0; send-snapshot 2.0 link 3"},
		{0, z(2, 1), false, "link 3 <- SNAP 0.0; send-snapshot 0.0 link 3"},
		{0, z(2, 1), true, "link 3 <- TRUNC 0.0"},
		{z(2, 1), z(2, 2), false, "link 3 <- TRUNC 2.1"},
		{z(1, 1), z(2, 1), false, "link 3 <- SNAP 1.1; send-snapshot 1.1 link 3"}, // its log may begin with 2.1
		{z(1, 1), z(2, 1), true, "link 3 <- TRUNC 1.1"},
	} {
		s := newSolo(t, zab.Stored{Accepted: 2, Current: 2, Last: c.last})
		s.leads()
		joins := hello(3, 2)
		joins.Message.Hello.Cumulative = c.cumulative
		s.step(up(3), joins)
		s.want(c.want+"; link 3 <- NEWLEADER epoch=3", ackEpoch(3, c.peer, 2))
	}
}

func TestWithoutLogSyncALearnerBehindTheMemoryGetsASnapshot(t *testing.T) {
	s := newSoloOf(t, zab.Options{NoLogSync: true}, stored(z(1, 4), z(1, 5)))
	s.leads()
	s.step(up(3), hello(3, 1))
	s.want("link 3 <- SNAP 1.5; send-snapshot 1.5 link 3; link 3 <- NEWLEADER epoch=2", ackEpoch(3, z(1, 2), 1))
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
