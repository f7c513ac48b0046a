package sim

import (
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// oracle lets one of two servers go on without the other, and keeps what an operator promises
// of it: one server at a time, and only one that has all that was committed. So the permission moves
// when the server that has it ends while both serve together: first it is taken back,
// and some ticks later the other one has it. A server that ends in an election keeps it, for it
// may have noted an epoch of which the other one does not know (seed 3004550).
type oracle struct {
	w        *world
	holder   int  // the place of the server that may go on alone, 0: neither
	together bool // both serve, and one of them follows the other
}

// oracles draws runs of two servers and an oracle. Nobody promises that a server is
// permitted to go on alone whose disk is lost, or whose memory is damaged; and the ensemble stays as it is.
func (p *Plan) oracles(r *random) {
	if p.Seed > knownSeeds && p.Seed%8 != 5 && r.oneIn(12) { // those have groups: weights.go
		p.askOracle()
	}
}

func (p *Plan) askOracle() {
	p.Oracle, p.Participants, p.Observers = true, 2, min(p.Observers, 1)
}

// underOracle leaves out what such a run has not.
func (p *Plan) underOracle() {
	if !p.Oracle {
		return
	}
	p.Reconfig, p.Spares, p.Grouped = false, 0, false
	p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool {
		switch classOf(f.Kind) {
		case ClassProcess, ClassPause, ClassNet, ClassSlow, ClassClock, ClassClient:
			return false
		}
		return true
	})
}

// says is what a server is told now.
func (o *oracle) says(p *process) bool {
	return o.w.plan.Oracle && (o.holder == p.place || o.w.is(OracleTellsBoth) && p.place <= 2)
}

// begins has a server that starts ask, and ask again.
func (o *oracle) begins(p *process) {
	if !o.w.plan.Oracle {
		return
	}
	var ask func()
	ask = func() {
		before := p.permittedMs
		if p.permittedMs = 0; o.says(p) {
			p.permittedMs = p.now().MonoMs + replica.PermissionMs(o.w.plan.TickMs)
		}
		if (before == 0) != (p.permittedMs == 0) {
			p.push(replica.Event{Kind: replica.EventTick})
		}
		p.awake(max(o.w.plan.TickMs/4, 1), ask)
	}
	p.permittedMs = 0
	p.awake(0, ask)
}

// stepped looks whether the two serve together.
func (o *oracle) stepped(p *process) {
	if !o.w.plan.Oracle || p.place > 2 {
		return
	}
	o.together = false
	for place := 1; place <= 2; place++ {
		q, other := o.w.server(place), o.w.server(3-place)
		if q.up && other.up && q.replica.Serving() && other.replica.Serving() && q.replica.Peer().State() == zab.Leading {
			o.together = slices.ContainsFunc(q.replica.Peer().Learners(), func(l zab.Learner) bool {
				return l.Server == other.id && l.Stage == zab.LearnerServing
			})
		}
	}
}

// ended is the end of a server. If it was the one, and served with the other, the permission moves.
func (o *oracle) ended(p *process) {
	if !o.w.plan.Oracle || p.place != o.holder || !o.together {
		return
	}
	life, tickMs := p.life, o.w.plan.TickMs
	o.w.after(p.random.between(1, 4*tickMs), func() {
		if p.life != life || p.up || o.holder != p.place {
			return // it is back, and may go on
		}
		o.w.note(p.node, "ORACLE", 0, 0, "permits nothing")
		o.holder = 0
		o.w.after(2*tickMs+p.random.between(0, 4*tickMs), func() {
			o.holder = 3 - p.place
			o.w.note(o.w.server(o.holder).node, "ORACLE", 0, 0, "permits")
		})
	})
}

// sayable is what is enough in a run with an oracle: whom it permits to go on alone counts as a quorum.
type sayable struct {
	quorum.Set
	oracle *oracle
}

// Enough implements quorum.Set.
func (s sayable) Enough(servers quorum.IDs) bool {
	return s.Set.Enough(servers) || slices.ContainsFunc(servers, func(id quorum.ID) bool {
		p := s.oracle.w.byID(id)
		return p != nil && s.oracle.says(p)
	})
}
