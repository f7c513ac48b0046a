package sim

import (
	"slices"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// phantoms are learners that a mutant leader takes for the servers that a reconfig adds:
// they send what discovery waits for, and nothing else. So the quorum of the configuration
// in force decides discovery alone.
type phantoms struct {
	links map[zab.LinkID]bool
}

// haunt lets the phantoms connect as soon as a server leads.
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
	for _, id := range p.proposed.Participants() {
		if p.inForce.Participants().Has(id) {
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

// ignoresVote reports whether a mutant drops a notification.
func (p *process) ignoresVote(n *fle.Notification) bool {
	away := func(q *process) bool { return !q.up && q.wiped == nil && p.inForce.Participants().Has(q.id) }
	return p.w.is(ServerZeroIgnored) && n.Leader == 0 || p.w.is(AllMustVote) && slices.ContainsFunc(p.w.servers, away)
}

// mutateRole changes a message of a mutant learner to its leader.
func (l *link) mutateRole(m *zab.Message) {
	p := l.p
	if p.masks != nil && m.Kind == zab.KindNewLeader {
		m.Payload = []byte(p.masks.realText(string(m.Payload)))
	}
	switch {
	case p.w.is(AckAhead) && m.Kind == zab.KindAck && m.Zxid.Counter() != 0,
		p.w.is(CommitAhead) && m.Kind == zab.KindCommit && p.replica.Peer().State() == zab.Leading:
		if last := p.replica.Peer().Last(); last.Epoch() == m.Zxid.Epoch() {
			m.Zxid = last
		}
	case p.w.is(ReconfigCommitPlain) && m.Kind == zab.KindCommitAndActivate:
		m.Kind = zab.KindCommit
	case p.w.is(ServesTooEarly) && m.Kind == zab.KindAck && l.outgoing && m.Zxid.Counter() == 0 && !l.early:
		l.early = true
		p.push(replica.Event{Kind: replica.EventMessage, Link: l.id, Message: &zab.Message{Kind: zab.KindUpToDate}})
	}
}

// forgetReconfig removes a proposed configuration from what recovery has found.
func (p *process) forgetReconfig(r *replica.Recovered) {
	if p.w.is(ReconfigForgotten) {
		p.pending = nil
		h := zk.TxnHeader{Zxid: zk.Zxid(p.saved.Version), Time: p.now().WallMs, Op: zk.OpReconfig}
		r.State.Replay(&h, &zk.Txn{Op: zk.OpReconfig, Path: zk.ConfigPath, Data: []byte(p.saved.Text()), Version: -1}, zk.Digest{})
	}
}

// configs returns the configurations by which a server finds others.
func (p *process) configs() []*ensemble.Config {
	if p.w.is(AddressesKept) {
		return []*ensemble.Config{p.w.plan.configOf(p.place)}
	}
	return []*ensemble.Config{p.inForce, p.proposed}
}

// givesUp reports whether a mutant that stops leaves an operation undone.
func (p *process) givesUp(o *operation) bool {
	return p.w.is(StopKeepsEpoch) && (o.Kind == replica.DiskAppend || o.Kind == replica.DiskSync)
}
