package sim

import (
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// Sessions that only one server knows: all sessions of clients if the plan says so, and
// those that partitioned servers give to clients that come without a session.

// attached handles a session that was given to a connection, in a step that is over.
func (o *observer) attached(p *process, c *port) {
	if o.model.Knows(c.session) {
		if p.replica.Locals().Get(c.session) != nil && p.knowsAll(c.session) {
			o.w.fail(&check.Violation{Property: "local", Detail: "server " + p.node.String() + " attaches session " + c.session.String() + " for itself alone, and all know it"})
		}
		return
	}
	partitioned := p.replica.ReadOnly() || c.closing || c.left // or it was until this step, for a client that leaves
	if partitioned && p.replica.Locals().Get(c.session) == nil && p.knowsAll(c.session) {
		return // created by a transaction at the end of the log, which it also serves, and nobody has committed yet
	}
	if !o.local.Has(c.session) {
		o.w.tally.Locals++
	}
	if !o.w.plan.Local && !partitioned {
		o.w.fail(&check.Violation{Property: "local", Detail: "server " + p.node.String() + " attaches session " + c.session.String() + ", which was never made"})
	}
	o.w.fail(o.local.Attached(c.session, p.id, p.life, c.timeoutMs, p.now().MonoMs))
}

// knowsAll reports whether a server has a session as one that all servers know or will
// know.
func (p *process) knowsAll(id zk.SessionID) bool {
	return slices.ContainsFunc(p.replica.Leases(), func(l session.Lease) bool { return l.ID == id })
}

// upgraded handles a transaction that has created a session.
func (o *observer) upgraded(id zk.SessionID, zxid zk.Zxid) {
	if o.local.Had(id) {
		o.w.tally.Upgraded++
		o.upgrades[id] = zxid
	}
	o.w.fail(o.local.Opened(id))
}

// refused checks the answer of a partitioned server: no write is done.
func (o *observer) refused(c *client, req *zk.Request, code zk.Code) error {
	id, _ := c.machine.Session()
	if err := o.readOnly.Refused(o.local.Had(id), req, code); err != nil || !req.Op.IsWrite() {
		return err
	}
	return o.asked.NotApplied(id, req.Xid)
}

// locals checks that a server has ended the sessions whose time was over, and no others
// except those that it gave while it was read-only, which end with that.
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

// local handles a heartbeat of a session that is local as far as the server knows; it
// returns false for other sessions. No other server learns of the heartbeat before this one
// knows better.
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

// connect handles a client that arrives with a session.
func (s *touches) connect(p *process, id zk.SessionID) {
	s.maybe(p, id)
	if p.replica.Locals().Get(id) != nil {
		s.w.watcher.local.Received(id, p.now().MonoMs, false)
	}
}

// upgraded finds the sessions that were local and that this server now knows to be
// everybody's: it must report their heartbeats, unless it had ended the session before it
// learned of the upgrade.
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
