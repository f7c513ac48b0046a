package sim

import (
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// phantoms are learners that a mutant leader takes for the servers that a reconfig
// brings in: they say what discovery waits for, and nothing else. So the quorum of
// the configuration in force decides it alone.
type phantoms struct {
	links map[zab.LinkID]bool
}

// haunt has the phantoms say hello as soon as a server leads.
func (p *process) haunt() {
	leads := p.replica.Peer().State() == zab.Leading && p.replica.Peer().Phase() == zab.Discovery
	if !p.w.is(OldQuorumDiscovers) || !leads || p.proposed == nil {
		p.phantoms.links = nil
		return
	}
	if p.phantoms.links != nil {
		return
	}
	p.phantoms.links = map[zab.LinkID]bool{}
	for _, id := range p.proposed.Voters() {
		if p.inForce.Voters().Has(id) {
			continue
		}
		p.linkID++
		p.phantoms.links[p.linkID] = true
		hello := zab.Message{Kind: zab.KindFollowerInfo, Zxid: zk.MakeZxid(0, 0), Hello: zab.Hello{Server: id}}
		p.push(replica.Event{Kind: replica.EventLinkUp, Link: p.linkID})
		p.push(replica.Event{Kind: replica.EventMessage, Link: p.linkID, Message: &hello})
	}
}

// answerAsPhantom promises an epoch to a leader that asks a phantom for it.
func (p *process) answerAsPhantom(e *zab.Effect) {
	if p.phantoms.links[e.Link] && e.Kind == zab.EffectSend && e.Message.Kind == zab.KindLeaderInfo {
		p.push(replica.Event{Kind: replica.EventMessage, Link: e.Link, Message: &zab.Message{Kind: zab.KindAckEpoch}})
	}
}

// ignoresVote reports whether a mutant does not hear a notification.
func (p *process) ignoresVote(n *fle.Notification) bool {
	return p.w.is(ServerZeroIgnored) && n.Leader == 0
}
