package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// elects is what server 3 receives before it follows server 1.
func elects() []Event {
	says := func(from quorum.ID, state fle.State) Event {
		n := &fle.Notification{State: state, Vote: fle.Vote{Leader: 1, Epoch: 1}, Round: 1, Version: 2}
		return Event{Kind: EventNotification, Server: from, Notification: n}
	}
	return []Event{says(1, fle.Leading), says(2, fle.Following)}
}

// A connection to a leader that comes up, or fails, in the step that decides to follow a leader
// belongs to an older role. It is closed, or ignored, and the role continues with its own
// connection.
func TestConnectionOfAnOlderRoleIsNotTaken(t *testing.T) {
	for name, old := range map[string]Event{
		"up":   {Kind: EventLinkUp, Link: 7, Outgoing: true},
		"down": {Kind: EventLinkDown},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWavering(t)
			w.step(append(elects(), old)...)
			kinds := map[zab.EffectKind]zab.LinkID{}
			for _, e := range w.r.effects.Links {
				kinds[e.Kind] = e.Link
			}
			if _, ok := kinds[zab.EffectConnect]; !ok || len(kinds) > 2 || name == "up" && kinds[zab.EffectClose] != 7 {
				t.Errorf("the effects are %v", w.r.effects.Links)
			}
			if s := w.r.Peer().State(); s != zab.Following {
				t.Errorf("the server is %v", s)
			}
			w.step(Event{Kind: EventLinkUp, Link: 8, Outgoing: true})
			if links := w.r.effects.Links; len(links) != 1 || links[0].Kind != zab.EffectSend || links[0].Link != 8 {
				t.Errorf("on its own connection: %v", links)
			}
		})
	}
}
