package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// A configuration comes into force with UPTODATE if the leader has sent it, on its own link.
// Anybody who can connect to a server can send NEWLEADER as well, and so can an earlier leader.
func TestConfigurationOfAnotherLinkThanTheLeadersIsNotTaken(t *testing.T) {
	const leader, stranger zab.LinkID = 8, 9
	for name, c := range map[string]struct{ offered, said, want int64 }{
		"newer": {offered: 1, said: 5, want: 1}, "older": {offered: 4, said: 1, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWavering(t)
			step := func(batch ...Event) {
				for len(batch) > 0 {
					effects := w.r.Step(Now{MonoMs: w.nowMs}, batch, nil)
					batch = nil
					for _, op := range effects.Disk {
						batch = []Event{{Kind: EventDone, Ticket: op.Ticket}}
					}
				}
			}
			on := func(link zab.LinkID, m zab.Message) Event { return Event{Kind: EventMessage, Link: link, Message: &m} }
			newLeader := func(version int64) zab.Message {
				return zab.Message{Kind: zab.KindNewLeader, Zxid: zk.MakeZxid(1, 0), Payload: []byte(w.config(version, false).Text())}
			}
			step(elects()...)
			step(Event{Kind: EventLinkUp, Link: leader, Outgoing: true})
			step(on(leader, zab.Message{Kind: zab.KindLeaderInfo, Zxid: zk.MakeZxid(1, 0)}))
			step(on(leader, zab.Message{Kind: zab.KindDiff}), on(leader, newLeader(c.offered)))
			step(Event{Kind: EventLinkUp, Link: stranger}, on(stranger, newLeader(c.said)))
			step(on(leader, zab.Message{Kind: zab.KindUpToDate, Zxid: zk.NoZxid}))
			if w.r.Epoch() != 1 || w.r.Config().Version != c.want {
				t.Errorf("in epoch %d the configuration in force is %d, want %d", w.r.Epoch(), w.r.Config().Version, c.want)
			}
		})
	}
}
