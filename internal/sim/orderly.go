package sim

import "github.com/conclave-project/conclave/zk"

// stop ends the process in order: what its disk was given is written, as far as there
// is space; then everybody learns that it is gone.
func (p *process) stop() {
	if !p.up {
		return
	}
	p.w.note(p.node, "stop", 0, 0, "")
	life := p.life
	for t := &p.turns; len(t.queue) > 0 && p.life == life; {
		o := t.queue[0]
		t.queue = t.queue[1:]
		if p.givesUp(&o) {
			continue
		}
		event, err := t.disk.Do(&o.DiskOp, o.snapshot)
		if err != nil {
			break // what stands after it is not done either
		}
		t.done(&o, event)
	}
	if p.life == life {
		p.kill("stopped")
	}
}

// roll restarts the servers from a place on, one after the other: the next when the
// last serves again, or when that has taken too long.
func (t *trouble) roll(place int, limitMs int64) {
	if place > len(t.w.servers) || !t.w.wild {
		return
	}
	p := t.w.server(place)
	p.stop()
	t.disturb(limitMs + t.w.plan.InitMs)
	t.bringBack(p, p.random.between(50, 500))
	untilMs := t.w.nowMs + 500 + limitMs
	var look func()
	look = func() {
		if p.serving || t.w.nowMs >= untilMs {
			t.roll(place+1, limitMs)
			return
		}
		t.w.after(50, look)
	}
	t.w.after(50, look)
}

// lost notes that a server's disk is gone, with a history up to a zxid.
func (p *process) lost(last zk.Zxid) {
	if p.wiped == nil {
		p.wiped = &last
	}
}

// mustWait reports whether a server with an empty disk must not come back yet, and
// has it tried again later. With db.autocreate it votes at once, as if nothing had
// ever been: all that is promised is that nothing is lost if its operator starts it
// while all others serve, with everything that it had.
func (p *process) mustWait() bool {
	if p.wiped == nil || !p.w.plan.AutoCreate || p.w.is(LostDiskVotesAtOnce) || p.w.allHave(p, *p.wiped) {
		return false
	}
	life := p.life
	p.w.after(100, func() {
		if p.life == life {
			p.start()
		}
	})
	return true
}

// allHave reports whether all servers but one serve in one epoch, and have on disk what that
// one had, as far as it was shown to anybody: one that serves under an older leader may not
// know of the epoch that the lost disk had promised. Of those that wait with an empty disk,
// too, one after the other is started.
func (w *world) allHave(but *process, last zk.Zxid) bool {
	_, shown := w.watcher.order.Shown()
	epoch := uint32(0) // of the others, 0 before the first of them
	for _, q := range w.servers {
		switch {
		case q == but, !q.up && q.wiped != nil:
		case !q.up, !q.serving, q.untilMs > w.nowMs, q.replica.Peer().Durable() < min(last, shown):
			return false
		case epoch != 0 && q.replica.Epoch() != epoch:
			return false
		default:
			epoch = q.replica.Epoch()
		}
	}
	return true
}
