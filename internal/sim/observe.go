package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// observer sees everything and reports it to the checkers.
type observer struct {
	w         *world
	order     *check.Order
	digests   *check.Digests
	model     *check.Model
	kept      *check.Kept
	asked     *check.Asked
	recent    check.Recent
	sequences *check.Sequences
	expiry    *check.Expiry
	ledMs     int64                  // when the last leader began
	epoch     uint32                 // the newest epoch in which a leader was established
	begun     map[zk.SessionID]int64 // the timeouts of all sessions whose beginning was decided
	local     *check.Local
	upgrades  map[zk.SessionID]zk.Zxid // of sessions that only one server knew
	readOnly  *check.ReadOnly
	touches   *touches
	records   map[zk.Zxid]record
	snapshots map[*process]arrival
	sources   map[*process]quorum.ID // the server whose state a server has last taken over
	copied    map[*process][]zk.Zxid // the last history that came with a state or with a copy of the directory
	lines     *lines
}

// record is a transaction, by its zxid: every server that logs the zxid logs the same
// record.
type record struct {
	header zk.TxnHeader
	txn    zk.Txn
}

// arrival is a leader's state that is about to be taken over.
type arrival struct {
	link    zab.LinkID
	history []zk.Zxid
}

func newObserver(w *world) *observer {
	o := &observer{
		w: w, order: check.NewOrder(sayable{w.config.Quorum(), &w.oracle}), digests: check.NewDigests(), model: check.NewModel(), kept: check.NewKept(), asked: check.NewAsked(),
		sequences: check.NewSequences(), expiry: check.NewExpiry(), touches: newTouches(w), lines: &lines{w: w, decided: map[zk.Zxid]int64{}}, records: map[zk.Zxid]record{}, snapshots: map[*process]arrival{}, sources: map[*process]quorum.ID{}, copied: map[*process][]zk.Zxid{},
		local: check.NewLocal(w.plan.Upgrade), upgrades: map[zk.SessionID]zk.Zxid{}, begun: map[zk.SessionID]int64{},
	}
	o.readOnly = check.NewReadOnly(o.model, o.order)
	return o
}

// recovered handles a server that has come back from its disk. A server that is being
// filled again and has no vote may have the state that a leader has sent, even if it did
// not find it at its previous start because its disk could not be read.
func (o *observer) recovered(p *process, last zk.Zxid, untrusted bool) {
	delete(o.snapshots, p)
	if sent := o.copied[p]; (untrusted || o.w.is(CopyUnsaid)) && last > 0 && slices.Contains(sent, last) {
		o.order.Copy(p.id, sent)
	}
	if p.rot.lied || p.rot.lost {
		o.order.Damaged(p.id)
	}
	o.w.fail(o.order.Recover(p.id, max(last, 0)))
	if o.w.plan.Solo {
		o.order.Reuses(last)
		maps.DeleteFunc(o.records, func(z zk.Zxid, _ record) bool { return z > last })
		maps.DeleteFunc(o.lines.decided, func(z zk.Zxid, _ int64) bool { return z > last })
	}
}

// gone handles the end of a server's process.
func (o *observer) gone(p *process) {
	delete(o.snapshots, p)
	p.serving = false
	o.touches.gone(p)
	o.order.Leave(p.id)
	o.local.Gone(p.id)
}

// loading handles a leader's state that a server is receiving.
func (o *observer) loading(p *process, link zab.LinkID, from quorum.ID, history []zk.Zxid) {
	o.snapshots[p], o.sources[p] = arrival{link, history}, from
}

// took handles the end of that: the state is taken over.
func (o *observer) took(p *process, link zab.LinkID) {
	if a, here := o.snapshots[p]; here && a.link == link && p.links[link] != nil {
		o.order.Copy(p.id, a.history)
		o.copied[p] = a.history
	}
	delete(o.snapshots, p)
}

// stepped handles a step of a server.
func (o *observer) stepped(p *process, batch []replica.Event, effects *replica.Effects) {
	for i := range batch {
		if batch[i].Kind == replica.EventLoaded && len(effects.Left) == 0 {
			o.took(p, batch[i].Link)
		}
	}
	for _, zxid := range effects.Diverged {
		if o.w.trouble.spoilt {
			o.w.note(p.node, "differs", 0, zxid, "")
			continue
		}
		o.w.fail(&check.Violation{Property: "digest", Detail: fmt.Sprintf("server %v finds that its tree is not that of %d.%d", p.node, zxid.Epoch(), zxid.Counter())})
	}
	for i := range effects.Disk {
		o.disk(p, &effects.Disk[i])
	}
	if p.serving {
		o.show(p) // what this step delivered was shown, even if the role has ended
	}
	if len(effects.Left) > 0 || !p.replica.Serving() {
		p.serving = false
		o.order.Leave(p.id)
	}
	if p.replica.Serving() && !p.serving {
		o.serve(p)
	}
	if o.w.plan.Liars && slices.Contains(effects.Left, zab.ReasonCannotTruncate) {
		o.w.beyond()
	}
	if len(effects.Left) > 0 {
		o.touches.left(p)
		o.local.RoleEnded(p.id)
	}
	o.touches.stepped(p, batch, effects)
	o.ended(p, batch)
	o.space(p)
	o.locals(p, batch)
}

// ticked reports whether a batch contains a tick.
func ticked(batch []replica.Event) bool {
	return slices.ContainsFunc(batch, func(e replica.Event) bool { return e.Kind == replica.EventTick })
}

// ended checks that a leader has ended every session whose time was over. A leader that
// others have left for another one learns late of what they delivered, and the ends that it
// decides no longer count.
func (o *observer) ended(p *process, batch []replica.Event) {
	if !p.leads() || p.replica.Epoch() < o.epoch || p.turns.full || !ticked(batch) {
		return
	}
	o.w.fail(o.expiry.Stepped(p.id, p.now().MonoMs, p.slackMs()))
}

// disk handles an operation that a server is about to store.
func (o *observer) disk(p *process, op *replica.DiskOp) {
	switch op.Kind {
	case replica.DiskAppend:
		o.append(p, op)
	case replica.DiskTruncate:
		o.w.note(p.node, "cut", 0, op.Zxid, "")
		if o.order.Truncate(p.id, op.Zxid) != nil {
			return // the server itself finds out that there is no such place
		}
	case replica.DiskSaveSnapshot:
		// What came after the SNAP is in the tree that is saved, but not in the log.
		history, err := o.order.History(o.sources[p], op.Zxid)
		o.w.fail(err)
		o.order.Copy(p.id, history)
	}
}

func (o *observer) append(p *process, op *replica.DiskOp) {
	o.w.note(p.node, "log", 0, op.Zxid, "")
	if err := o.order.Append(p.id, op.Zxid, check.Hash(op.Payload)); err != nil {
		o.w.fail(err)
		return
	}
	if _, known := o.records[op.Zxid]; known {
		return
	}
	h, t, _, err := txn.Decode(op.Payload)
	if err != nil {
		o.w.fail(err)
		return
	}
	o.records[op.Zxid] = record{h, t}
	switch t.Op {
	case zk.OpReconfig:
		o.reconfigures(op.Zxid, &t)
	case zk.OpCreateSession:
		o.local.Logged(h.Session)
		o.begun[h.Session] = int64(t.TimeoutMs)
	}
	o.lines.logged(op.Zxid)
	switch {
	case !p.leads():
	case t.Op == zk.OpCreateSession:
		o.expiry.Opens(p.id, h.Session, p.now().MonoMs)
	case t.Op == zk.OpCloseSession && h.Cxid == 0:
		o.expired(p, &h)
	case t.Op == zk.OpCloseSession:
		o.expiry.Ended(p.id, h.Session)
	}
}

// expired handles a session that a leader ends because of its timeout. The session may not
// exist yet: its beginning may wait for the leader's disk longer than its timeout (seed
// 37079), and its end comes after that.
func (o *observer) expired(p *process, h *zk.TxnHeader) {
	o.w.tally.Expired++
	if o.w.still && o.w.living()[h.Session] {
		o.w.fail(&check.Violation{Property: "expiry", Detail: "session " + h.Session.String() + " is ended, and its client lives"})
	}
	timeoutMs, known := o.begun[h.Session]
	if ms, here := o.model.TimeoutMs(h.Session); here {
		timeoutMs, known = int64(ms), true
	}
	if cameMs, waits := p.cameMs(h.Session); waits && known {
		o.w.fail(o.expiry.Waits(p.id, h.Session, timeoutMs, cameMs))
	}
	if known {
		o.w.fail(o.expiry.Expired(p.id, h.Session, timeoutMs, p.now().MonoMs, o.touches.undisturbedMs(p, h.Session)))
	}
}

// serve handles a server that begins to serve.
func (o *observer) serve(p *process) {
	p.serving, p.wiped = true, nil
	p.roles++
	leading := p.replica.Peer().State() == zab.Leading
	last := p.replica.Tree().LastZxid()
	what := "serve"
	if leading {
		what = "LEAD"
		o.w.tally.Leaders++
		o.expiry.Leads(p.id, p.now().MonoMs)
		o.ledMs, o.epoch = o.w.nowMs, max(o.epoch, p.replica.Epoch())
	}
	o.w.note(p.node, what, 0, last, "")
	fresh, err := o.order.Serve(p.id, p.replica.Epoch(), leading, last)
	o.w.fail(err)
	o.shown(p, fresh)
	p.rot.lost = false
	if !leading || err == nil {
		p.rot.lied = p.rot.lied && p.life == o.w.trouble.damaged[p]
	}
}

// show handles a server that shows its tree.
func (o *observer) show(p *process) {
	fresh, err := o.order.Show(p.id, p.replica.Tree().LastZxid())
	o.w.fail(err)
	o.shown(p, fresh)
}

func (o *observer) shown(p *process, fresh []zk.Zxid) {
	for _, zxid := range fresh {
		r := o.records[zxid]
		o.w.fail(o.model.Apply(&r.header, &r.txn))
		o.w.fail(o.asked.Shown(&r.header, &r.txn))
		o.lines.shown(&r)
		o.w.fail(o.readOnly.Shown(zxid))
		switch r.txn.Op {
		case zk.OpCreateSession:
			o.expiry.Opened(r.header.Session, int64(r.txn.TimeoutMs))
			o.upgraded(r.header.Session, zxid)
			if p.leads() {
				o.expiry.Alive(p.id, r.header.Session, p.now().MonoMs)
			}
		case zk.OpCloseSession:
			o.expiry.Closed(r.header.Session)
		}
	}
	if tree := p.replica.Tree(); !o.w.trouble.isWrong(tree) {
		o.w.fail(o.digests.Seen(p.id, tree.LastZxid(), tree.Digest()))
	}
}

// keeps follows the znodes whose names are used once.
func (o *observer) keeps(req *zk.Request, e *clientsession.Effect) {
	if !strings.HasPrefix(req.Path, "/k/") {
		return
	}
	done := e.Replied && e.Code == zk.OK
	not := e.Replied && decided(e.Code) || e.Outcome == clientsession.NotApplied
	switch {
	case req.Op == zk.OpCreate && done:
		o.kept.Created(req.Path)
	case req.Op == zk.OpCreate && not:
		o.kept.NotCreated(req.Path)
	case req.Op == zk.OpDelete && done:
		o.kept.Deleted(req.Path)
	case req.Op == zk.OpDelete && not:
		o.kept.NotDeleted(req.Path)
	}
}
