package sim

import "github.com/conclave-project/conclave/internal/quorum"

// forsaking is a server that alone has a history for a while: that of a leader which was
// never established, with transactions that were never committed. It stays alive, and must
// give that history up again.
type forsaking struct {
	fault   *Fault
	leader  *process // it restarts and synchronizes the learner
	learner *process // the server itself
	release func()   // lets the leader reach the others again
}

// forsake isolates the leader for a moment, and then restarts its process before the others
// have elected another leader: its log is longer than theirs.
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

// offers handles a leader that sends its history to a server. Only the first suitable
// server gets it.
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

// forsaken handles the learner when it has the history: it loses its leader, and learns of
// no other one until the others have gone on without it. Later it restarts.
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

// quiet partitions all clients for a while: only a leader that has not committed anything
// of its own truncates a learner's log; after that the learner gets a snapshot.
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

// forsakes draws, from a branch of its own, when servers are forsaken, if there are enough
// others to go on.
func (p *Plan) forsakes(r *random) {
	if p.Participants < 5 && p.Observers == 0 || p.Participants < 3 || r.oneIn(2) {
		return
	}
	p.SomeSnapshot = r.oneIn(3) // what such a leader has passed on cannot be truncated
	for atMs := r.between(1000, 4000); atMs < p.WildMs; atMs += r.between(1000, 6000) {
		p.add(p.draw(r, FaultForsake, atMs))
	}
}
