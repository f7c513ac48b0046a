package replica

import "github.com/conclave-project/conclave/zk"

// onTick ends the sessions whose time is over and the containers and TTL znodes
// that nobody needs any more: the leader's work alone. While its disk is full
// both wait.
func (r *Replica) onTick(*Event) {
	r.expireLocals()
	r.readOnlyTick()
	if r.full || !r.leads() {
		return
	}
	for _, id := range r.orphans {
		r.closeSession(id)
	}
	r.orphans = nil
	for _, id := range r.sessions.Expire(r.now.MonoMs) {
		r.counts.Expired++
		r.closeSession(id)
	}
	if r.opts.ReapIntervalMs > 0 && r.now.MonoMs >= r.reapMs {
		r.reapMs = r.now.MonoMs + r.opts.ReapIntervalMs
		r.reap()
	}
}

func (r *Replica) closeSession(id zk.SessionID) {
	r.decideOwn(id, &zk.Request{Op: zk.OpCloseSession})
}

// reap deletes what may go, at most as many as the limit per minute allows.
func (r *Replica) reap() {
	limit := max(1, int(int64(r.opts.ReapPerMinute)*r.opts.ReapIntervalMs/60_000))
	for _, path := range r.tree.Reapable(r.now.WallMs, r.opts.ContainerUnusedMs, limit) {
		r.counts.Reaped++
		r.decideOwn(0, &zk.Request{Op: zk.OpDeleteContainer, Path: path})
	}
}

func (r *Replica) onDisk(e *Event) { r.full = e.Full }
