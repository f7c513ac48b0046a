package zab_test

import (
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

// helloOf is hello of a follower that can have a cumulative link.
func helloOf(id int, accepted uint32) zab.Event {
	e := hello(id, accepted)
	e.Message.Hello.Cumulative = true
	return e
}

// leadsCumulative brings the peer to broadcast as leader of epoch 1, with server 2 on a
// cumulative link and server 3 on one that is not.
func (s *solo) leadsCumulative() {
	s.step(elected(1), up(2), up(3), helloOf(2, 0), hello(3, 0))
	s.step(s.done())
	s.step(ackEpoch(2, 0, 0), ackEpoch(3, 0, 0))
	s.step(s.done())
	s.step(ack(2, z(1, 0)), ack(3, z(1, 0)))
}

// Both ends must say it; a leader that does not is Apache's.
func TestLinkIsCumulativeIfBothEndsSayIt(t *testing.T) {
	offers := func(o zab.Options, e zab.Event) (offered, accepted bool) {
		p := newSoloOf(t, o, stored()).p
		p.Step(0, []zab.Event{elected(1), up(2), e})
		for _, e := range p.Step(0, []zab.Event{{Kind: zab.EventDone, Ticket: 1}}) {
			if e.Kind == zab.EffectSend && e.Message.Kind == zab.KindLeaderInfo {
				accepted = e.Message.Cumulative
			}
		}
		p = newSoloOf(t, o, stored()).p
		p.Step(0, []zab.Event{elected(2)})
		for _, e := range p.Step(0, []zab.Event{up(toLeader)}) {
			offered = offered || e.Message.Hello.Cumulative
		}
		return offered, accepted
	}
	observer := helloOf(2, 0)
	observer.Message.Kind = zab.KindObserverInfo
	for _, test := range []struct {
		name              string
		o                 zab.Options
		e                 zab.Event
		offered, accepted bool
	}{
		{"both", zab.Options{}, helloOf(2, 0), true, true},
		{"a follower of Apache's", zab.Options{}, hello(2, 0), true, false},
		{"one by one", zab.Options{OneByOne: true}, helloOf(2, 0), false, false},
		{"an observer", zab.Options{}, observer, true, false},
		{"itself an observer", zab.Options{Observer: true}, hello(2, 0), false, false},
	} {
		if offered, accepted := offers(test.o, test.e); offered != test.offered || accepted != test.accepted {
			t.Errorf("%s: offered %v, accepted %v", test.name, offered, accepted)
		}
	}
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

// A commit of what it has not, or has had, is another history on such a link too.
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

// A reconfig is activated with the commit that names it, when all before it is delivered.
func TestActivationStandsForItself(t *testing.T) {
	s := newSolo(t, stored())
	s.servesCumulative()
	s.step(said(zab.KindProposal, z(1, 1)), said(zab.KindProposal, z(1, 2)))
	s.step(s.done())
	s.want("close link 100; LEAVE: commit of another proposal; look", said(zab.KindCommitAndActivate, z(1, 2)))
}

// What comes before UPTODATE may be committed by one commit too.
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

// The answer to a sync comes after the commits of what was written before it, also where
// those of what was written after it are due in the same step.
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

// A reconfig is told by itself, after all before it; also to one that comes late.
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
