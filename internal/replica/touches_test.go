package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// TestTouchesOfManySessionsFitIntoPackets: a leader ends the link of a learner whose
// packet is too long.
func TestTouchesOfManySessionsFitIntoPackets(t *testing.T) {
	r := learningOn(5)
	const sessions = 2*touchesMax + 5
	for id := range sessions {
		r.touches.timeouts[zk.SessionID(id+1)] = 30_000
	}
	r.sessions = session.New(100)
	r.tree = tree.New(tree.Options{})
	r.onSend(&zab.Effect{Kind: zab.EffectSend, Link: 5, Message: zab.Message{Kind: zab.KindPing, Zxid: 7}})
	told := 0
	for _, e := range r.effects.Links {
		told += len(e.Message.Touches)
		if _, _, err := peerwire.PacketBytes(peerwire.AppendMessage(nil, &e.Message, peerwire.FromLearner), 0xfffff); err != nil {
			t.Error(err)
		}
	}
	if n := len(r.effects.Links); n != 3 || told != sessions || r.effects.Links[n-1].Message.Zxid != 7 {
		t.Errorf("%d pings report %d sessions, want 3 and %d, the answer last", n, told, sessions)
	}
}

// A ping for an observer whose link has ended since is no ping for the leader.
func TestTouchesAreForTheLeaderAlone(t *testing.T) {
	r := learningOn(5)
	r.sessions = session.New(100)
	r.touches.timeouts[1] = 30_000
	for _, link := range []zab.LinkID{9, 5} {
		r.effects.reset()
		r.onSend(&zab.Effect{Kind: zab.EffectSend, Link: link, Message: zab.Message{Kind: zab.KindPing, Zxid: 7}})
		if told := len(r.effects.Links[0].Message.Touches) == 1; told != (link == 5) {
			t.Errorf("link %d is told: %v", link, told)
		}
	}
}

// learningOn is the part of a follower that has a link to its leader.
func learningOn(link zab.LinkID) *Replica {
	peer := zab.New(zab.Options{ID: 1, TickMs: 100, InitMs: 1000, SyncMs: 1000}, zab.Config{Quorum: quorum.NewMajority(1, 2, 3)}, zab.Stored{})
	peer.Step(0, []zab.Event{{Kind: zab.EventElected, Server: 2}, {Kind: zab.EventLinkUp, Link: link, Outgoing: true}})
	return &Replica{peer: peer, tree: tree.New(tree.Options{}), touches: touches{timeouts: map[zk.SessionID]int32{}}}
}
