package sim

import "github.com/conclave-project/conclave/zk"

// stop ends the process in order: what its disk was given is written, as far as there is
// space; then the others learn that it is gone.
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
			break // later operations are not done either
		}
		t.done(&o, event)
	}
	if p.life == life {
		p.kill("stopped")
	}
}

// roll restarts the servers from a place on, one after the other: the next one when the
// last one serves again, or when that has taken too long.
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

// lost records that a server's disk is gone, with a history up to a zxid.
func (p *process) lost(last zk.Zxid) {
	if p.wiped == nil {
		p.wiped = &last
	}
}

// mustWait reports whether a server with an empty disk must not start yet; if so, it tries
// again later. With db.autocreate the server votes at once, as if there had never been
// anything. It is only promised that nothing is lost if its operator starts it while all
// others serve and have everything that it had.
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

// allHave reports whether all servers except one serve in one epoch, and have on disk what
// that one had, as far as it was shown: a server that serves under an older leader may not
// know the epoch that the lost disk had promised. Servers that wait with an empty disk are
// also started one after the other.
func (w *world) allHave(but *process, last zk.Zxid) bool {
	_, shown := w.watcher.order.Shown()
	epoch := uint32(0) // of the others; 0 before the first of them
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
