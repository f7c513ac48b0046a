package sim

import (
	"slices"

	"github.com/conclave-project/conclave/check"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// Sessions that one server alone knows: all that clients get while the plan says so,
// and what servers give to clients that come without a session while they are cut off.

// attached is a session that was given to a connection, in a step that is over.
func (o *observer) attached(p *process, c *port) {
	if o.model.Knows(c.session) {
		if p.replica.Locals().Get(c.session) != nil && p.knowsAll(c.session) {
			o.w.fail(&check.Violation{Property: "local", Detail: "server " + p.node.String() + " attaches session " + c.session.String() + " for itself alone, and all know it"})
		}
		return
	}
	if !o.local.Has(c.session) {
		o.w.tally.Locals++
	}
	if gone := c.closing || c.left; !o.w.plan.Local && !p.replica.ReadOnly() && !gone { // for one that goes it was cut off until this step
		o.w.fail(&check.Violation{Property: "local", Detail: "server " + p.node.String() + " attaches session " + c.session.String() + ", which was never made"})
	}
	o.w.fail(o.local.Attached(c.session, p.id, p.life, c.timeoutMs, p.now().MonoMs))
}

// knowsAll reports whether a server has a session as one that all know, or will.
func (p *process) knowsAll(id zk.SessionID) bool {
	return slices.ContainsFunc(p.replica.Leases(), func(l session.Lease) bool { return l.ID == id })
}

// upgraded is a session that a transaction has made.
func (o *observer) upgraded(id zk.SessionID) {
	if o.local.Has(id) {
		o.w.tally.Upgraded++
	}
	o.w.fail(o.local.Opened(id))
}

// refused is what a server that is cut off has answered: no write, and none is done.
func (o *observer) refused(c *client, req *zk.Request, code zk.Code) error {
	id, _ := c.machine.Session()
	if err := o.readOnly.Refused(o.local.Had(id), req, code); err != nil || !req.Op.IsWrite() {
		return err
	}
	return o.asked.NotApplied(id, req.Xid)
}

// locals sees that a server has ended the sessions whose time was over, and no other.
func (o *observer) locals(p *process, batch []replica.Event) {
	if !o.w.plan.Local && !o.w.plan.ReadOnly {
		return
	}
	has := func(id zk.SessionID) bool { return p.replica.Locals().Get(id) != nil }
	o.w.fail(o.local.Stepped(p.id, p.life, p.now().MonoMs, replica.ExpirySlackMs(o.w.plan.TickMs), ticked(batch), has, p.knowsAll))
}

// local takes a sign of life of a session that this server alone knows; false if it is
// none. Nobody else is told of it.
func (s *signs) local(p *process, c *port) bool {
	local := s.w.watcher.local
	if !local.Has(c.session) {
		return false
	}
	local.Heard(c.session, p.now().MonoMs, !c.closing)
	if c.ended {
		local.Closed(c.session)
	}
	return true
}
