package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// TestTouchesOfManySessionsFitIntoPackets: a leader ends the link of a learner whose
// packet is too long.
func TestTouchesOfManySessionsFitIntoPackets(t *testing.T) {
	r := &Replica{peer: new(zab.Peer), touches: touches{timeouts: map[zk.SessionID]int32{}}}
	const sessions = 2*touchesMax + 5
	for id := range sessions {
		r.touches.timeouts[zk.SessionID(id+1)] = 30_000
	}
	r.sessions = session.New(100, 0)
	r.tree = tree.New(tree.Options{})
	r.onSend(&zab.Effect{Kind: zab.EffectSend, Message: zab.Message{Kind: zab.KindPing, Zxid: 7}})
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
