package sim

import (
	"bytes"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Some servers send messages in the order of Apache's leaders (LearnerHandler): a learner
// whose history was sent is told of each commit as it happens, and not only with UPTODATE;
// and proposals made meanwhile may come before NEWLEADER. The content of the messages is
// unchanged.

// apaches draws, for some runs, which servers lead in this order.
func (p *Plan) apaches(r *random) {
	if p.Seed > knownSeeds && r.oneIn(3) {
		p.Apache = uint32(1 + r.below(1<<16-1))
		p.OneByOne |= p.Apache
	}
}

// asApache reports whether a server leads in this order.
func (p *process) asApache() bool { return p.w.plan.Apache>>(p.place%32)&1 != 0 }

// ordering is what such a leader has sent to a learner.
type ordering struct {
	proposed  []zk.Zxid // proposed and not committed
	committed zk.Zxid
	within    zk.Zxid // sent before NEWLEADER up to here: the ACK of NEWLEADER covers it
}

// orders records what a leader sends, and reports whether it must be sent now.
func (l *link) orders(m *zab.Message) bool {
	if l.outgoing || !l.p.asApache() {
		return true
	}
	o := &l.ordering
	switch m.Kind {
	case zab.KindProposal:
		o.proposed = append(o.proposed, m.Zxid)
	case zab.KindCommit, zab.KindCommitAndActivate:
		if m.Zxid <= o.committed {
			return false // already sent when it was committed
		}
		for o.committed = m.Zxid; len(o.proposed) > 0 && o.proposed[0] <= m.Zxid; {
			o.proposed = o.proposed[1:]
		}
	case zab.KindNewLeader:
		late := bytes.Clone(peerwire.AppendMessage(nil, m, peerwire.FromLeader))
		l.p.later(l.p.random.between(0, 3*l.p.delayMs()), func() {
			if l.p.links[l.id] == l {
				l.p.w.note(l.p.node, "send", l.stream.far, m.Zxid, m.Kind.String())
				l.ordering.within = l.ordering.committed
				l.write(late)
			}
		})
		return false
	}
	return true
}

// acknowledges handles an ACK. The ACK of NEWLEADER is the only one for everything
// committed before: Apache's leader waits for no other, but ours must get one.
func (l *link) acknowledges(m *zab.Message) {
	if within := l.ordering.within; m.Kind == zab.KindAck && within != 0 {
		l.ordering.within = 0
		l.p.push(replica.Event{Kind: replica.EventMessage, Link: l.id, Message: &zab.Message{Kind: zab.KindAck, Zxid: within}})
	}
}

// tellCommits sends commits to learners in the step in which they happen.
func (p *process) tellCommits() {
	if !p.asApache() || !p.leads() {
		return
	}
	for _, id := range sortedKeys(p.links) {
		l := p.links[id]
		for o := &l.ordering; len(o.proposed) > 0 && o.proposed[0] <= p.replica.Peer().Delivered(); {
			m := zab.Message{Kind: zab.KindCommit, Zxid: o.proposed[0]}
			if p.w.watcher.records[m.Zxid].txn.Op == zk.OpReconfig {
				m.Kind, m.Leader = zab.KindCommitAndActivate, p.id
			}
			l.orders(&m)
			p.w.note(p.node, "send", l.stream.far, m.Zxid, m.Kind.String())
			l.write(peerwire.AppendMessage(nil, &m, peerwire.FromLeader))
		}
	}
}
