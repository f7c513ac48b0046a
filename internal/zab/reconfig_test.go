package zab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// reconfig is the proposal, at 1.1, of an ensemble of these servers.
func reconfig(ids ...quorum.ID) zab.Event {
	e := propose(z(1, 1))[0]
	e.Config = &zab.Config{Version: int64(z(1, 1)), Quorum: quorum.NewMajority(ids...)}
	return e
}

func TestLeaderWithoutAVoteInTheNewEnsembleDesignatesAnotherAndLeaves(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(up(3), hello(3, 0))
	s.step(ackEpoch(3, 0, 0))
	s.step(ack(3, z(1, 0)))
	s.step(reconfig(2, 3))
	s.step(s.done())
	s.want("", ack(3, z(1, 1)))
	s.want("link 2 <- COMMITANDACTIVATE 1.1; link 3 <- COMMITANDACTIVATE 1.1; deliver 1.1; activate 1.1 leader 2; "+
		"close link 2; close link 3; LEAVE: stopped; look", ack(2, z(1, 1)))
}

// An observer learns with the reconfig itself which server leads the new ensemble.
func TestObserverIsToldOfTheDesignatedLeader(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(up(4), on(4, zab.Message{Kind: zab.KindObserverInfo, Hello: zab.Hello{Server: 4}}))
	s.step(ackEpoch(4, 0, 0))
	s.step(ack(4, z(1, 0)))
	s.step(reconfig(2))
	s.step(s.done())
	told := map[zab.LinkID]string{}
	for _, e := range s.p.Step(s.nowMs, []zab.Event{ack(2, z(1, 1))}) {
		if e.Kind == zab.EffectSend {
			told[e.Link] += fmt.Sprintf("%v %s %q leader %d", e.Message.Kind, zab.FormatZxid(e.Message.Zxid), e.Message.Payload, e.Message.Leader)
		}
	}
	if want := `COMMITANDACTIVATE 1.1 "" leader 2`; told[2] != want {
		t.Errorf("the follower is told %s, want %s", told[2], want)
	}
	if want := `INFORMANDACTIVATE 1.1 "1.1" leader 2`; told[4] != want {
		t.Errorf("the observer is told %s, want %s", told[4], want)
	}
}

// Looking servers do not join a leader of weight 0. A leader that a reconfig leaves without
// weight would lose each follower that has to look again, and get none back.
func TestLeaderOfWeight0InTheNewEnsembleDesignatesAnotherAndLeaves(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(up(3), hello(3, 0))
	s.step(ackEpoch(3, 0, 0))
	s.step(ack(3, z(1, 0)))
	change := reconfig(1, 2, 3)
	weighted, err := quorum.NewWeighted(quorum.Participant{ID: 1}, quorum.Participant{ID: 2}, quorum.Participant{ID: 3, Weight: 1})
	if err != nil {
		t.Fatal(err)
	}
	change.Config.Quorum = weighted
	s.step(change)
	s.step(s.done())
	s.want("", ack(2, z(1, 1)))
	s.want("link 2 <- COMMITANDACTIVATE 1.1; link 3 <- COMMITANDACTIVATE 1.1; deliver 1.1; activate 1.1 leader 3; "+
		"close link 2; close link 3; LEAVE: stopped; look", ack(3, z(1, 1)))
}

// The leader's own disk completes the quorum, so the leader leaves while it handles that
// completion. A second Look would begin an election while it is in its next role.
func TestLeaderThatLeavesWithTheLastOfItsDiskLooksOnce(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(reconfig(2))
	s.want("", ack(2, z(1, 1)))
	s.want("link 2 <- COMMITANDACTIVATE 1.1; deliver 1.1; activate 1.1 leader 2; close link 2; LEAVE: stopped; look", s.done())
}

// Transactions after the reconfig may be committed by the new ensemble alone.
func TestDiscoveryNeedsAQuorumOfBothEnsembles(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	change := reconfig(1, 2, 3, 4, 5)
	change.Kind = zab.EventConfig
	s.step(change)
	s.want("", elected(1), up(2), hello(2, 1)) // enough of the old ensemble, not of the new one
	s.want("accepted=2", up(4), hello(4, 1))
	s.step(s.done())
	s.want("", ackEpoch(2, z(1, 1), 1))
	s.want("close link 4", ackEpoch(4, z(1, 2), 1)) // it has a record that this leader lacks
	s.step(up(3), hello(3, 1))
	s.want("current=2", ackEpoch(3, z(1, 1), 1))
}

func TestFollowerTellsOfAReconfigAfterItsRecord(t *testing.T) {
	s := newSolo(t, stored())
	s.serves(1)
	s.step(said(zab.KindProposal, z(1, 1)))
	s.step(s.done())
	s.want("deliver 1.1; activate 1.1 leader 3",
		on(toLeader, zab.Message{Kind: zab.KindCommitAndActivate, Zxid: z(1, 1), Leader: 3}))
}

func TestANewLeaderBringsTheReconfigOfAnOldOneIntoForce(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	change := reconfig(1, 2, 3, 4, 5)
	change.Kind = zab.EventConfig
	s.step(change)
	s.step(elected(1), up(2), up(3), hello(2, 1), hello(3, 1))
	s.step(s.done())
	s.step(ackEpoch(2, z(1, 1), 1), ackEpoch(3, z(1, 1), 1))
	s.step(s.done())
	s.want("", ack(2, z(2, 0))) // enough of the old ensemble, not of the new one
	s.want("activate 1.1 leader 1; SERVE epoch 2; link 2 <- UPTODATE; link 3 <- UPTODATE", ack(3, z(2, 0)))
}

func TestAReconfigThatIsTruncatedIsForgotten(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	change := reconfig(1, 2, 3, 4, 5)
	change.Kind = zab.EventConfig
	s.step(change)
	s.follows(2)
	s.step(said(zab.KindTrunc, 0))
	s.step(s.done())
	s.step(said(zab.KindNewLeader, z(2, 0)), zab.Event{Kind: zab.EventStop})
	s.step(s.done())
	s.step(elected(1), up(2), hello(2, 2))
	s.step(s.done())
	s.step(ackEpoch(2, 0, 2))
	s.step(s.done())
	s.want("SERVE epoch 3; link 2 <- UPTODATE", ack(2, z(3, 0)))
	s.step(propose(z(3, 1))...)
	s.step(s.done())
	s.want("link 2 <- COMMIT 3.1; deliver 3.1", ack(2, z(3, 1)))
}

// A server that is still taking over the history may be gone before it has it.
func TestWhoLeadsTheNewEnsembleHasTheHistory(t *testing.T) {
	s := newSolo(t, stored(z(1, 1)))
	change := reconfig(2, 3, 4)
	change.Kind = zab.EventConfig
	s.step(change)
	s.step(elected(1), up(4), hello(4, 1), up(2), hello(2, 1), up(3), hello(3, 1))
	s.step(s.done())
	s.step(ackEpoch(4, z(1, 1), 1), ackEpoch(2, z(1, 1), 1), ackEpoch(3, z(1, 1), 1))
	s.step(s.done())
	s.step(ack(2, z(2, 0)))
	if got := s.step(ack(3, z(2, 0))); !strings.Contains(got, "activate 1.1 leader 2") {
		t.Error(got)
	}
}

// A change that no quorum of the new ensemble follows cannot be committed, and neither can
// anything after it.
func TestLeaderThatLacksTheNewEnsembleGivesUp(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(reconfig(1, 4, 5))
	if got := s.step(s.wait(200), on(2, zab.Message{Kind: zab.KindPing, Zxid: z(1, 0)})); !strings.Contains(got, "LEAVE: quorum lost") {
		t.Error(got)
	}
}

// From the proposal of a reconfig on, a sync needs both ensembles, even one that was requested
// before.
func TestSyncNeedsBothEnsembles(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.want("link 2 <- PING 1.0", zab.Event{Kind: zab.EventSync, Link: 2})
	s.step(reconfig(1, 4, 5))
	s.want("", on(2, zab.Message{Kind: zab.KindPing, Zxid: z(1, 0)}))
}

func TestALearnerSynchronizedDuringAReconfigLearnsOfItsCommit(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	change := reconfig(1, 2, 3, 4)
	change.Config.Text = []byte("new")
	s.step(change)
	s.step(up(3), hello(3, 0))
	effects := s.p.Step(s.nowMs, []zab.Event{ackEpoch(3, 0, 0)})
	last := effects[len(effects)-1].Message
	if last.Kind != zab.KindNewLeader || string(last.Payload) != "new" {
		t.Errorf("the last one is %s %q", last.String(), last.Payload)
	}
	s.step(up(4), on(4, zab.Message{Kind: zab.KindFollowerInfo, Hello: zab.Hello{Server: 4}}))
	s.step(ackEpoch(4, 0, 0))
	s.step(ack(4, z(1, 0)))
	s.step(s.done())
	s.step(ack(2, z(1, 1)))
	s.want("link 2 <- COMMITANDACTIVATE 1.1; link 4 <- COMMITANDACTIVATE 1.1; deliver 1.1; activate 1.1 leader 1", ack(4, z(1, 1)))
	s.want("link 3 <- UPTODATE; link 3 <- COMMITANDACTIVATE 1.1", ack(3, z(1, 0)))
}

// A learner counts for the check of a change as soon as it is sent the proposals.
func TestALearnerThatStillTakesOverTheHistoryIsInStep(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(up(3), hello(3, 0))
	if s.p.InStep(quorum.NewMajority(1, 3)) {
		t.Error("in step before it has agreed on the epoch")
	}
	s.step(ackEpoch(3, 0, 0))
	if !s.p.InStep(quorum.NewMajority(1, 3)) {
		t.Error("not in step although it gets all proposals")
	}
}

// A reconfig may begin while a server of the new ensemble is still taking over the history. The
// leader must wait for it, and not consider it lost.
func TestAServerThatTakesOverTheHistoryIsNoQuorumLostForAReconfig(t *testing.T) {
	s := newSolo(t, stored())
	s.leads()
	s.step(up(3), hello(3, 0))
	s.step(ackEpoch(3, 0, 0)) // the history is on its way to server 3
	if !s.p.InStep(quorum.NewMajority(1, 3)) {
		t.Fatal("a server that takes over the history counts for a change")
	}
	s.step(reconfig(1, 3))
	s.step(s.done())
	for range 4 {
		s.step(s.wait(200), on(2, zab.Message{Kind: zab.KindPing}))
		if s.p.State() != zab.Leading {
			t.Fatal("the leader gave up its role")
		}
	}
}
