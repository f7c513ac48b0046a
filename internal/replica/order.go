package replica

import (
	"slices"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// order queues an event for the peer, which is stepped at the end of the step.
func (r *Replica) order(e zab.Event) { r.orders = append(r.orders, e) }

// stepPeer steps the peer until no more events for it follow.
func (r *Replica) stepPeer() {
	for again := true; again; again = len(r.orders) > 0 {
		orders := r.orders
		r.orders = r.spare[:0]
		effects := r.peer.Step(r.now.MonoMs, orders)
		for i := range effects {
			if i%tree.FetchMax == 0 {
				r.fetchEffects(effects[i:])
			}
			effectHandlers[effects[i].Kind](r, &effects[i])
		}
		r.unlockTree()
		clear(orders)
		r.spare = orders
	}
}

// effectHandlers maps each kind of the peer's effects to its handler.
var effectHandlers = [...]func(*Replica, *zab.Effect){
	zab.EffectAppend:       (*Replica).onAppend,
	zab.EffectSync:         disk(DiskSync),
	zab.EffectSetAccepted:  disk(DiskSetAccepted),
	zab.EffectSetCurrent:   disk(DiskSetCurrent),
	zab.EffectTruncate:     disk(DiskTruncate),
	zab.EffectSaveSnapshot: disk(DiskSaveSnapshot),
	zab.EffectReadLog:      (*Replica).toLink,
	zab.EffectLoadSnapshot: (*Replica).onLoadSnapshot,
	zab.EffectSendSnapshot: (*Replica).toLink,
	zab.EffectDeliver:      (*Replica).onDeliver,
	zab.EffectConnect:      (*Replica).toLink,
	zab.EffectSend:         (*Replica).onSend,
	zab.EffectClose:        (*Replica).toLink,
	zab.EffectServe:        (*Replica).onServe,
	zab.EffectActivate:     (*Replica).onActivate,
	zab.EffectLeave:        (*Replica).onLeave,
	zab.EffectLook:         func(r *Replica, _ *zab.Effect) { r.look() },
	zab.EffectRequest:      (*Replica).onForwarded,
	zab.EffectTouch:        (*Replica).onTouched,
	zab.EffectRevalidate:   (*Replica).onRevalidate,
	zab.EffectRevalidated:  (*Replica).onRevalidated,
	zab.EffectSynced:       (*Replica).onSynced,
}

func (r *Replica) onAppend(e *zab.Effect) {
	r.noteConfig(&e.Record)
	r.effects.Disk = append(r.effects.Disk, DiskOp{Kind: DiskAppend, Zxid: e.Record.Zxid, Payload: e.Record.Payload})
}

func disk(kind DiskKind) func(*Replica, *zab.Effect) {
	return func(r *Replica, e *zab.Effect) {
		r.effects.Disk = append(r.effects.Disk, DiskOp{Kind: kind, Epoch: e.Epoch, Ticket: e.Ticket, Zxid: e.Zxid})
	}
}

func (r *Replica) toLink(e *zab.Effect) { r.effects.Links = append(r.effects.Links, *e) }

// onSend adds what the peer does not know to its messages: the sessions that have sent
// heartbeats, the zxid up to which the tree was compared, and the version of the first
// configuration, which may have taken effect in this very step.
func (r *Replica) onSend(e *zab.Effect) {
	switch {
	case e.Message.Kind == zab.KindPing && r.peer.Follows(e.Link):
		pings := slices.Collect(slices.Chunk(r.touches.take(r.sessions, r.now.MonoMs), touchesMax))
		for len(pings) > 1 {
			ahead := *e
			ahead.Message = zab.Message{Kind: zab.KindPing, Zxid: zab.PingUnasked(r.full), Touches: pings[0]}
			r.effects.Links = append(r.effects.Links, ahead)
			pings = pings[1:]
		}
		if len(pings) > 0 {
			e.Message.Touches = pings[0]
		}
		if last := r.tree.LastZxid(); e.Message.Zxid >= 0 && r.trust.tree == likenessSame && last.Epoch() > 0 {
			e.Message.Zxid = zab.PingSame(last)
		}
	case e.Message.Kind == zab.KindNewLeader && r.ensemble.next == nil:
		e.Message.Payload = []byte(r.ensemble.numbered(e.Message.Zxid).Text())
	}
	r.effects.Links = append(r.effects.Links, *e)
}

// onLoadSnapshot prepares for the state that follows a SNAP.
func (r *Replica) onLoadSnapshot(e *zab.Effect) { r.trust.expectState(e.Link, e.Zxid) }

// onLoaded adopts a leader's state. No other message comes on the link before.
func (r *Replica) onLoaded(e *Event) {
	r.stepPeer() // the SNAP itself may be in this batch
	if !r.trust.stateCame(e.Link) {
		return
	}
	e.State.Finish(r.trust.base)
	r.adopt(e.State)
	r.ensemble.giveUp() // it belongs to a history that is abandoned, whatever its version
	r.tellElection()
	if c := r.recalled(e.State); c != nil {
		r.expect(c)
	}
	r.putConfig()
}

func (r *Replica) onMessage(e *Event) {
	if e.Message.Kind == zab.KindNewLeader && r.peer.Follows(e.Link) { // checked, because any process may connect and send one
		r.ensemble.offer(e.Message.Payload)
	}
	r.order(zab.Event{Kind: zab.EventReceive, Link: e.Link, Message: e.Message})
}

func (r *Replica) onLinkUp(e *Event) {
	if e.Outgoing && r.connects() {
		r.effects.Links = append(r.effects.Links, zab.Effect{Kind: zab.EffectClose, Link: e.Link})
		return
	}
	r.order(zab.Event{Kind: zab.EventLinkUp, Link: e.Link, Outgoing: e.Outgoing, Observers: e.Observers})
}

// connects reports whether this step has asked for a connection. Then a connection event in
// this step is the result of what an earlier role asked for: votes earlier in the batch have
// begun a new role.
func (r *Replica) connects() bool {
	r.stepPeer()
	return slices.ContainsFunc(r.effects.Links, func(e zab.Effect) bool { return e.Kind == zab.EffectConnect })
}

func (r *Replica) onLinkDown(e *Event) {
	if e.Link == 0 && r.connects() {
		return
	}
	r.trust.linkDown(e.Link)
	r.order(zab.Event{Kind: zab.EventLinkDown, Link: e.Link})
}

// onDone handles what the disk reports. After a truncation it adopts the tree that remains.
func (r *Replica) onDone(e *Event) {
	if e.State != nil {
		r.adopt(e.State)
		r.forgetConfig()
		r.putConfig()
	}
	r.order(zab.Event{Kind: zab.EventDone, Ticket: e.Ticket})
}

func (r *Replica) onFailed(e *Event) {
	r.order(zab.Event{Kind: zab.EventFailed, Ticket: e.Ticket})
}

func (r *Replica) onLogRead(e *Event) {
	r.order(zab.Event{Kind: zab.EventLogRead, Link: e.Link, Records: e.Records, More: e.More, OK: e.OK})
}

// onMoves tells the peer that a history makes progress.
func (r *Replica) onMoves(e *Event) { r.order(zab.Event{Kind: zab.EventMoves, Link: e.Link}) }

// onServe begins to serve clients.
func (r *Replica) onServe(e *zab.Effect) {
	if r.trust.voteless() {
		// It has followed without a vote until now, because it has forgotten what it had
		// promised. With this history it has a promise again.
		r.trust.restore()
		r.role.renew()
		r.election.succeeded()
		r.order(zab.Event{Kind: zab.EventStop})
		return
	}
	r.trust.synchronized()
	r.role.establish(e.Epoch)
	if r.trust.endAlone() {
		r.effects.Disk = append(r.effects.Disk, DiskOp{Kind: DiskEndAlone})
	}
	leads := r.peer.State() == zab.Leading
	if c := r.ensemble.onServe(leads, e.Epoch, r.tree.LastZxid()); c != nil {
		r.activate(c)
	}
	if r.role.reborn {
		return // in another role
	}
	if !r.ensemble.standalone() {
		r.vote(fle.Synced{Epoch: int64(e.Epoch)})
	}
	switch {
	case leads:
		r.lead(zk.MakeZxid(e.Epoch, 0))
	case r.trust.unready:
		// The snapshot may include changes of transactions that are still to come: nobody may
		// see those changes and older ones afterwards. The leader's answer to a sync arrives
		// after all these transactions.
		r.askSync(waiting{op: zk.OpSync}, &parked{body: syncBody})
	case r.trust.tree == likenessFuzzy:
		r.welcome()
		r.askSync(waiting{op: zk.OpSync}, &parked{body: syncBody}) // once it is answered, digests must be equal
	default:
		r.welcome()
	}
}

// welcome begins to accept clients.
func (r *Replica) welcome() {
	invariant.Check(!r.role.readOnly(), "replica: a server with a role serves reads alone (replica-R6)")
	r.role.serve(serviceFull)
	r.trust.ready()
}

// lead begins to decide. Every session has its full timeout again.
func (r *Replica) lead(last zk.Zxid) {
	r.trust.current() // what the snapshot was ahead by was committed, so an elected server has it
	r.sessions.Reset(r.now.MonoMs)
	r.leading.begin(r.newPrep(), last, r.now.MonoMs+r.opts.ReapIntervalMs, r.findOrphans())
	r.welcome()
}

// onLeave ends a role: clients are disconnected, and what they asked for is forgotten. They
// cannot know whether it was done.
func (r *Replica) onLeave(e *zab.Effect) {
	r.unlockTree()
	r.role.leave(r.now.MonoMs)
	if !r.ensemble.standalone() {
		r.vote(fle.Left{})
	}
	r.dropAll()
	r.requests.drop()
	r.leading.leave()
	r.touches.clear()
	r.ensemble.leave()
	r.trust.leave(e, r.now.MonoMs)
	r.sessions.Reset(r.now.MonoMs)
	r.locals.RemoveUpgrading() // all servers may know them by now, and may have seen them end
	r.effects.Left = append(r.effects.Left, e.Reason)
	r.electionLog.leave(e.Reason)
	if e.Reload {
		r.reload()
	}
}

// reload has everything read from disk again, once.
func (r *Replica) reload() {
	if r.role.reload() {
		r.effects.Disk = append(r.effects.Disk, DiskOp{Kind: DiskReload})
	}
}

// dropAll closes all connections, in the order of their numbers.
func (r *Replica) dropAll() {
	for _, id := range r.requests.ids() {
		r.clients.Close(id)
		r.forget(id)
	}
}

// onRecovered starts again with what is on disk.
func (r *Replica) onRecovered(e *Event) {
	r.stepPeer()
	r.adopt(e.Recovered.State)
	r.trust.recovered(e.Recovered)
	r.ensemble.recall(r.recalled(e.Recovered.State))
	r.putConfig()
	for _, link := range r.peer.Waiting() {
		r.effects.Links = append(r.effects.Links, zab.Effect{Kind: zab.EffectClose, Link: link})
	}
	r.newPeer(e.Recovered.Stored)
	r.role.reloaded()
	if r.election.observes != r.ensemble.observer || r.election.looking() {
		r.newElection() // the former machine is still looking, and look may have to wait
	}
	r.look()
}

// lockTree keeps readers out while transactions are delivered.
func (r *Replica) lockTree() {
	if !r.locked {
		r.locked = true
		r.tree.Lock()
	}
}

func (r *Replica) unlockTree() {
	if r.locked {
		r.locked = false
		if r.remap {
			r.readMap()
		}
		r.tree.Unlock()
		r.leading.applied(r.tree.LastZxid())
	}
}

// zabConfig returns a configuration as Zab sees it.
func zabConfig(c *ensemble.Config) zab.Config {
	return zab.Config{Version: c.Version, Quorum: c.Quorum(), Text: []byte(c.Text())}
}
