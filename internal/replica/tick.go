package replica

import (
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// onTick ends the sessions that nobody owns and the containers and TTL znodes
// that nobody needs any more: the leader's work alone. While it leads although
// its disk is full (zab-Z10), nothing can be written, and both wait.
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
	for _, id := range r.orphans {
		r.closeSession(id)
	}
	r.orphans = nil
	if r.opts.ReapIntervalMs > 0 && r.now.MonoMs >= r.reapMs {
		r.reap(r.now.MonoMs - r.reapMs + r.opts.ReapIntervalMs)
		r.reapMs = r.now.MonoMs + r.opts.ReapIntervalMs
	}
}

// Paused reports whether a process was paused if it has had no step for so long, each
// time in milliseconds: its shell gives it a tick four times as often as the ensemble's
// tick, and at least once a second.
func Paused(sinceMs, tickMs int64) bool { return sinceMs > min(tickMs/4, 1000)+max(tickMs/4, 1) }

// onPaused lets no session end, and takes no server for silent, for a tick, which is
// twice the time between two pings: what clients and servers have sent during the pause
// is in the sockets, and arrives after this step. One pause after the other must not
// keep the sessions of the dead: the delay is granted again when they were looked at.
func (r *Replica) onPaused() {
	if r.patient {
		return
	}
	r.patient = true
	r.pausedMs, r.patientMs = r.beforeMs, r.now.MonoMs+r.opts.TickMs
}

// lagMs returns how long ago that arrived which this server has not looked at yet.
func (r *Replica) lagMs() int64 {
	sinceMs := r.now.MonoMs
	if r.now.ArrivedMs != 0 {
		sinceMs = min(sinceMs, r.now.ArrivedMs)
	}
	if r.now.MonoMs < r.patientMs {
		sinceMs = min(sinceMs, r.pausedMs)
	}
	return r.now.MonoMs - sinceMs
}

// tellWhileBehind has a learner that is behind with its work say by itself that it is
// there: the leader's pings wait with the rest.
func (r *Replica) tellWhileBehind() {
	halfMs := r.opts.TickMs / 2
	if r.now.WaitsMs != 0 && r.now.MonoMs-r.now.WaitsMs > halfMs && r.now.MonoMs-r.toldMs > halfMs && r.peer.State() != zab.Leading {
		r.tellTouches()
	}
}

// expire ends the sessions whose time is over, the leader those of all servers,
// unless nothing can be written. Heartbeats that learners have brought in this step
// count: the server may have been late to receive them. After a pause of the server
// itself no session ends for a tick, which is twice the time between two pings: what
// clients and learners have sent meanwhile is in its sockets, and comes later.
func (r *Replica) expire() {
	if atMs, ok := r.expiryMs(); ok && atMs <= r.now.MonoMs {
		r.stepPeer()
	}
	if r.now.MonoMs < r.patientMs {
		return
	}
	r.patient = false
	r.expireLocals()
	if r.full || !r.leads() {
		return
	}
	for _, id := range r.sessions.Expire(r.lookedAtMs()) {
		r.counts.Expired++
		r.closeSession(id)
	}
}

// lookedAtMs is up to when everything that arrived has been looked at.
func (r *Replica) lookedAtMs() int64 {
	if r.now.WaitsMs != 0 {
		return min(r.now.MonoMs, r.now.WaitsMs)
	}
	return r.now.MonoMs
}

// expiryMs returns when expire has something to do, false for never.
func (r *Replica) expiryMs() (int64, bool) {
	atMs, ok := r.locals.NextMs()
	if !r.full && r.leads() {
		atMs, ok = earlier(atMs, ok, r.sessions.NextMs)
	}
	return max(atMs, r.patientMs), ok
}

// earlier returns the earlier of two times, either of which may not be.
func earlier(atMs int64, ok bool, other func() (int64, bool)) (int64, bool) {
	if otherMs, otherOK := other(); otherOK && (!ok || otherMs < atMs) {
		return otherMs, true
	}
	return atMs, ok
}

func (r *Replica) closeSession(id zk.SessionID) {
	r.decideOwn(id, &zk.Request{Op: zk.OpCloseSession})
}

// reap deletes what may go, as many as the limit per minute allows for the time
// since the last look. What is left of it is kept, up to one znode or one look. A
// znode that a decided transaction changes is left for the next look: it may be set
// again, or be another one by then.
func (r *Replica) reap(sinceMs int64) {
	const minuteMs = 60_000
	perMinute := int64(r.opts.ReapPerMinute)
	r.reapCredit += sinceMs * perMinute
	limit := int(r.reapCredit / minuteMs)
	r.reapCredit = min(r.reapCredit, max(minuteMs, r.opts.ReapIntervalMs*perMinute))
	for _, path := range r.tree.Reapable(r.now.WallMs, r.opts.ContainerUnusedMs, limit) {
		if r.prep.Changing(path) {
			continue
		}
		r.reapCredit -= minuteMs
		r.counts.Reaped++
		r.decideOwn(0, &zk.Request{Op: zk.OpDeleteContainer, Path: path})
	}
}

// onDisk notes whether the disk has space. A server that cannot write has no vote:
// it could neither lead nor promise an epoch.
func (r *Replica) onDisk(e *Event) {
	if r.full == e.Full {
		return
	}
	r.full = e.Full
	r.order(zab.Event{Kind: zab.EventSpace, OK: !r.full})
	if r.election != nil && r.started && r.lookAtMs == 0 && r.peer.Quiet() && r.election.State() == fle.Looking && !r.reborn {
		r.lookNow()
	}
}
