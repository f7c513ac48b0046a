package zab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// servesCumulative brings the peer to broadcast as a follower on a cumulative link.
func (s *solo) servesCumulative() {
	s.step(elected(2))
	s.step(up(toLeader))
	s.step(on(toLeader, zab.Message{Kind: zab.KindLeaderInfo, Zxid: z(1, 0), Cumulative: true}))
	s.step(s.done())
	s.step(said(zab.KindDiff, s.p.Last()), said(zab.KindNewLeader, z(1, 0)))
	s.step(s.done())
	s.step(said(zab.KindUpToDate, zk.NoZxid))
}

// helloOf is the hello of a follower that can have a cumulative link.
func helloOf(id int, accepted uint32) zab.Event {
	e := hello(id, accepted)
	e.Message.Hello.Cumulative = true
	return e
}

// leadsCumulative brings the peer to broadcast as leader of epoch 1, with server 2 on a
// cumulative link and server 3 on an ordinary one.
func (s *solo) leadsCumulative() {
	s.step(elected(1), up(2), up(3), helloOf(2, 0), hello(3, 0))
	s.step(s.done())
	s.step(ackEpoch(2, 0, 0), ackEpoch(3, 0, 0))
	s.step(s.done())
	s.step(ack(2, z(1, 0)), ack(3, z(1, 0)))
}

// Both ends must announce it; a leader that does not is Apache's.
func TestLinkIsCumulativeIfBothEndsSayIt(t *testing.T) {
	for _, test := range []struct {
		name string
		o    zab.Options
		e    zab.Event
		want bool
	}{
		{"both", zab.Options{}, helloOf(2, 0), true},
		{"a follower of Apache's", zab.Options{}, hello(2, 0), false},
		{"one by one", zab.Options{OneByOne: true}, helloOf(2, 0), false},
		{"an observer", zab.Options{}, asObserver(helloOf(2, 0)), false},
	} {
		p := newSoloOf(t, test.o, stored()).p
		p.Step(0, []zab.Event{elected(1), up(2), up(3), test.e, hello(3, 0)}) // 3 makes a quorum in any case
		told := 0
		for _, e := range p.Step(0, []zab.Event{{Kind: zab.EventDone, Ticket: 1}}) {
			if e.Kind == zab.EffectSend && e.Link == 2 && e.Message.Kind == zab.KindLeaderInfo {
				told++
				if e.Message.Cumulative != test.want {
					t.Errorf("%s: LEADERINFO says %v", test.name, e.Message.Cumulative)
				}
			}
		}
		if told != 1 {
			t.Errorf("%s: LEADERINFO came %d times", test.name, told)
		}
	}
	for _, test := range []struct {
		name string
		o    zab.Options
		want bool
	}{{"follower", zab.Options{}, true}, {"one by one", zab.Options{OneByOne: true}, false}, {"observer", zab.Options{Observer: true}, false}} {
		s := newSoloOf(t, test.o, stored())
		s.step(elected(2))
		said := 0
		for _, e := range s.p.Step(0, []zab.Event{up(toLeader)}) {
			if said++; e.Message.Hello.Cumulative != test.want {
				t.Errorf("%s: the hello says %v", test.name, e.Message.Hello.Cumulative)
			}
		}
		if said != 1 {
			t.Errorf("%s: %d messages", test.name, said)
		}
	}
}

func asObserver(e zab.Event) zab.Event {
	e.Message.Kind = zab.KindObserverInfo
	return e
}

// On a link that is not cumulative, a commit that skips a record belongs to another history.
func TestCommitThatSkipsIsRefusedElsewhere(t *testing.T) {
	s := newSolo(t, stored())
	s.serves(1)
	s.step(said(zab.KindProposal, z(1, 1)), said(zab.KindProposal, z(1, 2)))
	s.step(s.done())
	s.want("close link 100; LEAVE: commit of another proposal; look", said(zab.KindCommit, z(1, 2)))
}

// span returns that many zxids of epoch 1.
func span(n int) (all []zk.Zxid) {
	for i := range n {
		all = append(all, z(1, uint32(i+1)))
	}
	return all
}

// A message stands for at most CumulativeMax records, because everything that follows from one
// message is done in one step.
func TestCumulativeMessagesAreBounded(t *testing.T) {
	s := newSolo(t, stored())
	s.servesCumulative()
	var proposals []zab.Event
	for _, zxid := range span(70) {
		proposals = append(proposals, said(zab.KindProposal, zxid))
	}
	s.step(proposals...)
	s.want("link 100 <- ACK 1.32; link 100 <- ACK 1.64; link 100 <- ACK 1.70", s.done())

	s = newSolo(t, stored())
	s.leadsCumulative()
	s.step(zab.Event{Kind: zab.EventLinkDown, Link: 3})
	s.step(up(4), on(4, zab.Message{Kind: zab.KindFollowerInfo, Zxid: z(1, 0), Hello: zab.Hello{Server: 3, Cumulative: true}}))
	s.step(ackEpoch(4, 0, 0))
	s.step(propose(span(70)...)...)
	s.step(ack(2, z(1, 70)))
	var commits []string
	for line := range strings.SplitSeq(s.step(s.done()), "; ") {
		if strings.HasPrefix(line, "link 2 <- ") {
			commits = append(commits, line)
		}
	}
	if want := "[link 2 <- COMMIT 1.32 link 2 <- COMMIT 1.64 link 2 <- COMMIT 1.70]"; fmt.Sprint(commits) != want {
		t.Errorf("%v", commits)
	}
	s.want("link 4 <- UPTODATE; link 4 <- COMMIT 1.32; link 4 <- COMMIT 1.64; link 4 <- COMMIT 1.70", ack(4, z(1, 0)))
}

// After an ACK of a part of what a learner was sent, the time for the rest begins with that
// ACK.
func TestRestOfAnAckIsTimed(t *testing.T) {
	s := newSolo(t, stored())
	s.leadsCumulative()
	s.step(propose(z(1, 1), z(1, 2), z(1, 3))...)
	s.step(s.done())
	s.step(s.wait(600), ack(2, z(1, 2)), ack(3, z(1, 3)))
	pings := func() []zab.Event {
		return []zab.Event{on(2, zab.Message{Kind: zab.KindPing, Zxid: z(1, 0)}), on(3, zab.Message{Kind: zab.KindPing, Zxid: z(1, 0)})}
	}
	for range 9 { // 900 ms: less than SyncMs since the ACK, more since the proposal
		if got := s.step(append([]zab.Event{s.wait(100)}, pings()...)...); strings.Contains(got, "close link 2") {
			t.Fatalf("after %d ms: %s", s.nowMs, got)
		}
	}
	for range 3 {
		if strings.Contains(s.step(append([]zab.Event{s.wait(100)}, pings()...)...), "close link 2") {
			return
		}
	}
	t.Error("a learner that acknowledges no more stays")
}

func TestOneAckStandsForAllThatIsDurable(t *testing.T) {
	s := newSolo(t, stored())
	s.servesCumulative()
	s.want("append 1.1; append 1.2; sync", said(zab.KindProposal, z(1, 1)), said(zab.KindProposal, z(1, 2)))
	first := s.done()
	s.want("append 1.3; sync", said(zab.KindProposal, z(1, 3)))
	s.want("link 100 <- ACK 1.2", first)
	s.want("link 100 <- ACK 1.3", s.done())
	s.want("deliver 1.1; deliver 1.2", said(zab.KindCommit, z(1, 2)))
	s.want("deliver 1.3", said(zab.KindCommit, z(1, 3)))
}

// On a cumulative link, too, a commit of a record that the follower lacks or that was committed
// already belongs to another history.
func TestCumulativeCommitNamesWhatTheFollowerHas(t *testing.T) {
	for _, commit := range []zk.Zxid{z(1, 4), z(1, 1), z(2, 1)} {
		s := newSolo(t, stored())
		s.servesCumulative()
		s.step(said(zab.KindProposal, z(1, 1)), said(zab.KindProposal, z(1, 2)), said(zab.KindProposal, z(1, 3)))
		s.step(s.done())
		s.want("deliver 1.1; deliver 1.2", said(zab.KindCommit, z(1, 2)))
		s.want("close link 100; LEAVE: commit of another proposal; look", said(zab.KindCommit, commit))
	}
}

// A reconfig is activated with the commit that names it, after everything before it is
// delivered.
func TestActivationStandsForItself(t *testing.T) {
	s := newSolo(t, stored())
	s.servesCumulative()
	s.step(said(zab.KindProposal, z(1, 1)), said(zab.KindProposal, z(1, 2)))
	s.step(s.done())
	s.want("close link 100; LEAVE: commit of another proposal; look", said(zab.KindCommitAndActivate, z(1, 2)))
}

// Records that come before UPTODATE may be committed by one commit, too.
func TestCumulativeCommitBeforeUpToDate(t *testing.T) {
	s := newSolo(t, stored())
	s.step(elected(2))
	s.step(up(toLeader))
	s.step(on(toLeader, zab.Message{Kind: zab.KindLeaderInfo, Zxid: z(1, 0), Cumulative: true}))
	s.step(s.done())
	s.step(said(zab.KindDiff, 0), said(zab.KindProposal, z(1, 1)), said(zab.KindProposal, z(1, 2)), said(zab.KindProposal, z(1, 3)))
	s.want("append 1.1; deliver 1.1; append 1.2; deliver 1.2; sync; current=1", said(zab.KindCommit, z(1, 2)), said(zab.KindNewLeader, z(1, 0)))
}

func TestLeaderCommitsOnceForAll(t *testing.T) {
	s := newSolo(t, stored())
	s.leadsCumulative()
	s.step(propose(z(1, 1), z(1, 2), z(1, 3))...)
	s.want("", ack(2, z(1, 3)))
	s.want("link 3 <- COMMIT 1.1; deliver 1.1; link 3 <- COMMIT 1.2; deliver 1.2; link 3 <- COMMIT 1.3; deliver 1.3; link 2 <- COMMIT 1.3", s.done())
}

// The answer to a sync comes after the commits of what was written before it, even if commits
// of later writes are due in the same step.
func TestCommitsComeBeforeTheAnswerToASync(t *testing.T) {
	s := newSolo(t, stored())
	s.leadsCumulative()
	events := append(propose(z(1, 1), z(1, 2)), zab.Event{Kind: zab.EventSync, Link: 2})
	s.step(append(events, propose(z(1, 3))...)...)
	s.step(on(2, zab.Message{Kind: zab.KindPing, Zxid: z(1, 0)}), on(3, zab.Message{Kind: zab.KindPing, Zxid: z(1, 0)}))
	s.step(ack(2, z(1, 3)))
	s.want("link 3 <- COMMIT 1.1; deliver 1.1; link 3 <- COMMIT 1.2; deliver 1.2; link 2 <- COMMIT 1.2; link 2 <- SYNC; "+
		"link 3 <- COMMIT 1.3; deliver 1.3; link 2 <- COMMIT 1.3", s.done())
}

// A reconfig is sent in a message of its own, after everything before it; also to a learner
// that comes late.
func TestCommitsComeBeforeAnActivation(t *testing.T) {
	s := newSolo(t, stored())
	s.leadsCumulative()
	s.step(zab.Event{Kind: zab.EventLinkDown, Link: 3})
	s.step(up(4), on(4, zab.Message{Kind: zab.KindFollowerInfo, Zxid: z(1, 0), Hello: zab.Hello{Server: 3, Cumulative: true}}))
	s.step(ackEpoch(4, 0, 0)) // the history is sent: NEWLEADER
	events := propose(z(1, 1), z(1, 2), z(1, 3), z(1, 4), z(1, 5))
	events[2].Config = &zab.Config{Version: int64(z(1, 3)), Quorum: quorum.NewMajority(1, 2, 3)}
	s.step(events...)
	s.step(ack(2, z(1, 5)))
	s.want("deliver 1.1; deliver 1.2; link 2 <- COMMIT 1.2; link 2 <- COMMITANDACTIVATE 1.3; deliver 1.3; activate 1.3 leader 1; "+
		"deliver 1.4; deliver 1.5; link 2 <- COMMIT 1.5", s.done())
	s.want("link 4 <- UPTODATE; link 4 <- COMMIT 1.2; link 4 <- COMMITANDACTIVATE 1.3; link 4 <- COMMIT 1.5", ack(4, z(1, 0)))
}
