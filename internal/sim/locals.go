package sim

import (
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// Sessions that one server alone knows: all that clients get while the plan says so,
// and what servers give to clients that come without a session while they are partitioned.

// attached is a session that was given to a connection, in a step that is over.
func (o *observer) attached(p *process, c *port) {
	if o.model.Knows(c.session) {
		if p.replica.Locals().Get(c.session) != nil && p.knowsAll(c.session) {
			o.w.fail(&check.Violation{Property: "local", Detail: "server " + p.node.String() + " attaches session " + c.session.String() + " for itself alone, and all know it"})
		}
		return
	}
	partitioned := p.replica.ReadOnly() || c.closing || c.left // or it was until this step, for a client that goes
	if partitioned && p.replica.Locals().Get(c.session) == nil && p.knowsAll(c.session) {
		return // by a transaction at the end of its log, which it serves too, and nobody has committed yet
	}
	if !o.local.Has(c.session) {
		o.w.tally.Locals++
	}
	if !o.w.plan.Local && !partitioned {
		o.w.fail(&check.Violation{Property: "local", Detail: "server " + p.node.String() + " attaches session " + c.session.String() + ", which was never made"})
	}
	o.w.fail(o.local.Attached(c.session, p.id, p.life, c.timeoutMs, p.now().MonoMs))
}

// knowsAll reports whether a server has a session as one that all know, or will.
func (p *process) knowsAll(id zk.SessionID) bool {
	return slices.ContainsFunc(p.replica.Leases(), func(l session.Lease) bool { return l.ID == id })
}

// upgraded is a session that a transaction has made.
func (o *observer) upgraded(id zk.SessionID, zxid zk.Zxid) {
	if o.local.Had(id) {
		o.w.tally.Upgraded++
		o.upgrades[id] = zxid
	}
	o.w.fail(o.local.Opened(id))
}

// refused is what a server that is partitioned has answered: no write, and none is done.
func (o *observer) refused(c *client, req *zk.Request, code zk.Code) error {
	id, _ := c.machine.Session()
	if err := o.readOnly.Refused(o.local.Had(id), req, code); err != nil || !req.Op.IsWrite() {
		return err
	}
	return o.asked.NotApplied(id, req.Xid)
}

// locals sees that a server has ended the sessions whose time was over, and no other but
// those that it gave while it was read-only, with that.
func (o *observer) locals(p *process, batch []replica.Event) {
	if !o.w.plan.Local && !o.w.plan.ReadOnly {
		return
	}
	if !o.w.plan.Local && !p.replica.ReadOnly() {
		if n := p.replica.Locals().Count(); n > 0 {
			o.w.fail(&check.Violation{Property: "local", Detail: fmt.Sprintf("server %v is not read-only any more, and has %d sessions of its own", p.node, n)})
		}
		o.local.Gone(p.id)
		return
	}
	has := func(id zk.SessionID) bool { return p.replica.Locals().Get(id) != nil }
	o.w.fail(o.local.Stepped(p.id, p.life, p.now().MonoMs, p.slackMs(), ticked(batch), has, p.knowsAll))
}

// local takes a heartbeat of a session that is this server's own, for all it knows;
// false if it is none. Nobody else is told of it before this server knows better.
func (s *touches) local(p *process, c *port) bool {
	o := s.w.watcher
	if o.local.Has(c.session) {
		o.local.Received(c.session, p.now().MonoMs, !c.closing)
		if c.ended {
			o.local.Closed(c.session)
		}
	} else if o.upgrades[c.session] <= p.replica.Tree().LastZxid() {
		return false
	}
	if s.own[p] == nil {
		s.own[p] = kept{}
	}
	s.own[p][c.session] = s.own[p][c.session] || p.serving && !c.closing && !c.ended
	return true
}

// connect is a client that comes with a session.
func (s *touches) connect(p *process, id zk.SessionID) {
	s.maybe(p, id)
	if p.replica.Locals().Get(id) != nil {
		s.w.watcher.local.Received(id, p.now().MonoMs, false)
	}
}

// upgraded finds the sessions that were this server's own, and that it knows to be
// everybody's now: their heartbeats are to be told, unless the server had ended the session
// before it learned of that.
func (s *touches) upgraded(p *process) {
	for id, sure := range s.own[p] {
		zxid, is := s.w.watcher.upgrades[id]
		if !is || zxid > p.replica.Tree().LastZxid() {
			continue
		}
		delete(s.own[p], id)
		if sure && p.serving && !s.w.watcher.local.Ended(id) {
			s.sure(p, id)
		} else {
			s.maybe(p, id)
		}
	}
}
