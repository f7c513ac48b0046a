package replica

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// A reconfig that was decided but not logged when the role ended is not under way any more:
// otherwise this server's next leadership would refuse all others because of it. The same holds
// for a configuration that an earlier leader has sent.
func TestEndOfARoleForgetsWhatWasDecidedAndOffered(t *testing.T) {
	w := newWavering(t)
	e := &w.r.ensemble
	e.decide(w.config(5, false))
	e.offer([]byte(w.config(5, false).Text()))
	if !e.changing() {
		t.Fatal("nothing was decided")
	}
	e.leave()
	if e.changing() || e.onServe(false, 1, 9) != nil {
		t.Error("it counts after the role")
	}
}

// Links of learners that wait for a server to lead belong to its peer, which is made again.
func TestLinksThatWaitAreClosedWhenTheServerReadsItsDiskAgain(t *testing.T) {
	const link zab.LinkID = 7
	w := newWavering(t)
	w.step(Event{Kind: EventLinkUp, Link: link})
	w.step(Event{Kind: EventMessage, Link: link, Message: &zab.Message{Kind: zab.KindFollowerInfo, Zxid: zk.MakeZxid(0, 0), Hello: zab.Hello{Server: 1}}})
	effects := w.r.Step(Now{MonoMs: w.nowMs}, []Event{{Kind: EventRecovered, Recovered: &Recovered{State: NewState(false)}}}, nil)
	if !slices.ContainsFunc(effects.Links, func(e zab.Effect) bool { return e.Kind == zab.EffectClose && e.Link == link }) {
		t.Error("the link stays open, and nobody answers on it")
	}
}

// The state that comes after a SNAP is taken only from that link, and only in that role.
func TestStateIsTakenFromTheLinkThatIsWaitedOn(t *testing.T) {
	const leader, stranger zab.LinkID = 8, 9
	waits := func() *trust {
		t := &trust{}
		t.expectState(leader, 5)
		return t
	}
	for name, c := range map[string]struct {
		before func(*trust)
		link   zab.LinkID
		taken  bool
	}{
		"the leader's":        {func(*trust) {}, leader, true},
		"a stranger's":        {func(*trust) {}, stranger, false},
		"once":                {func(w *trust) { w.stateCame(leader) }, leader, false},
		"after the role":      {func(w *trust) { w.leave(&zab.Effect{}, 0) }, leader, false},
		"after the link":      {func(w *trust) { w.linkDown(leader) }, leader, false},
		"after another's end": {func(w *trust) { w.linkDown(stranger) }, leader, true},
	} {
		w := waits()
		c.before(w)
		if got := w.stateCame(c.link); got != c.taken {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Sessions that a leader was about to end may be alive by the time when it leads again, and one
// that was being upgraded may have ended as a global session.
func TestEndOfARoleForgetsWhichSessionsWereToEnd(t *testing.T) {
	w := newWavering(t)
	w.r.leading.endLater([]zk.SessionID{1, 2})
	w.r.leading.end(3)
	w.r.locals.Open(4, 5000, w.nowMs).Upgrading = true
	w.r.locals.Open(5, 5000, w.nowMs)
	w.r.onLeave(&zab.Effect{Kind: zab.EffectLeave, Reason: zab.ReasonQuorumLost})
	if l := &w.r.leading; len(l.ends) != 0 || len(l.takeOrphans()) != 0 {
		t.Error("the next leadership ends them")
	}
	if w.r.locals.Get(4) != nil || w.r.locals.Get(5) == nil {
		t.Error("of two sessions of this server the one that was upgraded goes, and no other")
	}
}
