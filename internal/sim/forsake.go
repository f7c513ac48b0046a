package sim

import "github.com/conclave-project/conclave/internal/quorum"

// forsaking is a server that alone has a history for a while: that of a leader which
// was never established, and with it what was never committed. It goes on living,
// and must give it up again.
type forsaking struct {
	fault   *Fault
	leader  *process // that comes back, and synchronizes
	learner *process // this one
	release func()   // lets the leader reach the others again
}

// forsake isolates the leader for a moment, and then has its process start again,
// before others have elected another one: its log is longer than theirs.
func (t *trouble) forsake(f *Fault) {
	p := t.w.leader()
	if p == nil {
		return
	}
	aloneMs := p.random.between(20, 100)
	for _, q := range t.w.servers {
		if q != p {
			t.cut(p, q, aloneMs)
		}
	}
	p.later(aloneMs, func() {
		p.kill("and comes back at once")
		t.bringBack(p, 0)
		t.forsaking = forsaking{fault: f, leader: p}
	})
}

// offers is a leader that sends its history to a server. The first one that will do
// is the only one that gets it.
func (t *trouble) offers(p *process, to node) {
	k := &t.forsaking
	if k.fault == nil || k.leader != p || k.learner != nil || !t.w.wild || p.serving {
		return
	}
	learner := t.w.byID(to.id())
	if k.fault.N == 1 && !learner.turns.saving || !t.without(p, learner) {
		return
	}
	k.learner = learner
	var deaf []node
	for _, q := range t.w.servers {
		if q != p && q != learner {
			t.w.block(p.node, q.node)
			deaf = append(deaf, q.node)
		}
	}
	k.release = func() {
		for _, q := range deaf {
			t.w.unblock(p.node, q)
		}
		deaf = nil
	}
	t.w.after(k.fault.ForMs, k.release)
}

// without reports whether the others can go on without two servers.
func (t *trouble) without(p, q *process) bool {
	var rest quorum.IDs
	for _, other := range t.w.servers {
		if other != p && other != q && other.up && other.untilMs <= t.w.nowMs {
			rest.Add(other.id)
		}
	}
	return p.proposed == nil && p.inForce.Quorum().Enough(rest)
}

// forsaken is the learner, with the history: its leader is lost, and it learns of no
// other until the others have gone on without it. Later it starts again.
func (t *trouble) forsaken(p *process) {
	k := t.forsaking
	t.forsaking = forsaking{}
	if !t.w.wild {
		return
	}
	forMs := k.fault.ForMs
	t.disturb(forMs)
	k.release()
	k.leader.power(100, false, "with what it alone has given on")
	t.bringBack(k.leader, forMs+2000)
	for _, q := range t.w.servers {
		if q != p && q != k.leader {
			t.cut(p, q, forMs)
			t.cut(q, p, forMs)
		}
	}
	t.quiet(forMs + t.w.plan.InitMs)
	t.w.after(forMs+p.random.between(0, 4000), func() {
		if t.w.wild {
			p.kill("forsaken")
			t.bringBack(p, 0)
		}
	})
}

// quiet partitions all clients for a while. A log is truncated only by a leader that has
// committed nothing of its own yet; after that a learner gets a snapshot instead.
func (t *trouble) quiet(forMs int64) {
	for place := range t.w.clients {
		for _, q := range t.w.servers {
			c, s := firstClient+node(place+1), q.node
			t.w.block(c, s)
			t.w.block(s, c)
			t.w.after(forMs, func() {
				t.w.unblock(c, s)
				t.w.unblock(s, c)
			})
		}
	}
}

// forsakes draws when servers are forsaken, where there are enough that the others go
// on: from a branch of its own.
func (p *Plan) forsakes(r *random) {
	if p.Participants < 5 && p.Observers == 0 || p.Participants < 3 || r.oneIn(2) {
		return
	}
	p.SomeSnapshot = r.oneIn(3) // what such a leader has passed on cannot be truncated
	for atMs := r.between(1000, 4000); atMs < p.WildMs; atMs += r.between(1000, 6000) {
		p.add(p.draw(r, FaultForsake, atMs))
	}
}
