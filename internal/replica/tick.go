package replica

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// onTick ends the sessions that nobody owns, and deletes the containers and TTL znodes that
// nobody needs any more; both are done only by the leader. While it leads although its disk is
// full (zab-Z10), nothing can be written, and both wait.
func (r *Replica) onTick(*Event) {
	r.readOnlyTick()
	r.doubtTick()
	r.forgetEnded()
	if r.full {
		return
	}
	r.proposePending()
	if !r.leads() {
		return
	}
	if r.peer.Holds() && r.leading.proposals.size() == 0 {
		r.decide(&asked{request: &zk.Request{Op: zk.OpError}, code: zk.ErrUnimplemented}) // this transaction changes nothing
	}
	if orphans := r.leading.takeOrphans(); len(orphans) > 0 {
		r.leading.endLater(orphans)
		r.endSome()
	}
	if sinceMs, due := r.leading.reapDue(r.now.MonoMs, r.opts.ReapIntervalMs, r.tree.Reaps()); due {
		r.reap(sinceMs)
	}
}

// tellWhileBehind makes a learner that is behind with its work report that it is alive: the
// leader's pings wait with the rest of its input.
func (r *Replica) tellWhileBehind() {
	pingMs := r.opts.Zab.PingMs()
	if r.now.WaitsMs != 0 && r.now.MonoMs-r.now.WaitsMs > pingMs && r.now.MonoMs-r.touches.toldMs > pingMs && r.peer.State() != zab.Leading {
		r.tellTouches()
	}
}

// expire ends the sessions that have expired, on the leader those of all servers, unless
// nothing can be written. Heartbeats that learners have sent in this step count first: this
// server may have been late to receive them. After a pause of this server no session ends for a
// while (pause.go).
func (r *Replica) expire() {
	if atMs, ok := r.expiryMs(); ok && atMs <= r.now.MonoMs {
		r.stepPeer()
	}
	if !r.pause.over(r.now.MonoMs) {
		return
	}
	r.expireLocals()
	if r.full || !r.leads() {
		return
	}
	expired := r.sessions.Expire(r.lookedAtMs())
	r.noteExpired(r.sessions, expired)
	r.leading.endLater(expired)
	r.endSome()
}

// ExpiredMax limits the sessions that the effects of a step name: a million may expire at once.
const ExpiredMax = 100

// noteExpired counts sessions of a table that have expired, and reports them.
func (r *Replica) noteExpired(table *session.Table, ids []zk.SessionID) {
	r.counts.Expired += int64(len(ids))
	named := min(len(ids), ExpiredMax-len(r.effects.Expired))
	r.effects.Unnamed += len(ids) - named
	for _, id := range ids[:named] {
		r.effects.Expired = append(r.effects.Expired, session.Lease{ID: id, TimeoutMs: table.Get(id).TimeoutMs})
	}
}

// How much work one step may spend on the ends of sessions and on the deletions of a search, in
// bytes of paths, because nobody is pinged meanwhile. A session counts as at least
// sessionBytes.
const (
	endsBytesMax = 1 << 20
	sessionBytes = 1 << 10
)

// endSome decides the ends of sessions, as many as a step has time for. If there are more, the
// next step is due at once.
func (r *Replica) endSome() {
	for bytes := int64(0); len(r.leading.ends) > 0 && bytes < endsBytesMax; {
		id := r.leading.nextEnd()
		bytes += sessionBytes + r.tree.EphemeralBytes(id)
		r.closeSession(id)
	}
}

// lookedAtMs returns the time up to which everything that arrived has been looked at.
func (r *Replica) lookedAtMs() int64 {
	if r.now.WaitsMs != 0 {
		return min(r.now.MonoMs, r.now.WaitsMs)
	}
	return r.now.MonoMs
}

// expiryMs returns when expire has something to do; false for never. Events that wait must be
// handled first: until then a check for expired sessions finds nothing.
func (r *Replica) expiryMs() (int64, bool) {
	decides := !r.full && r.leads()
	atMs, ok := r.locals.NextMs()
	if decides {
		atMs, ok = earlier(atMs, ok, r.sessions.NextMs)
	}
	atMs += r.now.MonoMs - r.lookedAtMs()
	if decides && len(r.leading.ends) > 0 {
		atMs, ok = r.now.MonoMs, true
	}
	return max(atMs, r.pause.untilMs), ok
}

// earlier returns the earlier of two times, either of which may be absent.
func earlier(atMs int64, ok bool, other func() (int64, bool)) (int64, bool) {
	if otherMs, otherOK := other(); otherOK && (!ok || otherMs < atMs) {
		return otherMs, true
	}
	return atMs, ok
}

func (r *Replica) closeSession(id zk.SessionID) {
	r.decideOwn(id, &zk.Request{Op: zk.OpCloseSession})
}

// reap deletes znodes that nobody needs, as many as the limit allows. If one step has checked
// enough of them, the next tick continues. A znode that a decided transaction changes is left
// for the next search: it may be set again, or be a different one by then.
func (r *Replica) reap(sinceMs int64) {
	limit := r.leading.reapLimit(sinceMs, int64(r.opts.ReapPerMinute), r.opts.ReapIntervalMs)
	paths, next := r.tree.Reapable(r.leading.reapAt, r.now.WallMs, r.opts.ContainerUnusedMs, limit, endsBytesMax)
	r.leading.reapOn(next, len(paths) < limit)
	for _, path := range paths {
		if r.leading.prep.Changing(path) {
			continue
		}
		r.leading.reaped()
		r.counts.Reaped++
		r.decideOwn(0, &zk.Request{Op: zk.OpDeleteContainer, Path: path})
	}
}

// onDisk records whether the disk has space. A server that cannot write does not vote: it could
// neither lead nor promise an epoch.
func (r *Replica) onDisk(e *Event) {
	if r.full == e.Full {
		return
	}
	r.full = e.Full
	r.order(zab.Event{Kind: zab.EventSpace, OK: !r.full})
	if r.election.looking() && !r.election.waits() && r.peer.Quiet() && !r.role.reborn {
		r.lookNow()
	}
}
