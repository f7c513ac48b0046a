package sim

import (
	"math"
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// oracle lets one of two servers go on without the other. It keeps what an operator must
// ensure: only one server has the permission at a time, and that server has everything that
// was committed. So the permission moves when the server that has it ends while both serve
// together: first it is withdrawn, and some ticks later the other server gets it. A server
// that ends during an election keeps it, because it may have noted an epoch that the other
// server does not know (seed 3004550).
type oracle struct {
	w        *world
	holder   int  // place of the server that may go on alone; 0 for neither
	together bool // both serve, and one of them follows the other
}

// oracles draws runs of two servers and an oracle. A server whose disk is lost or whose
// memory is damaged need not be permitted to go on alone, so such runs have none of these
// faults; and the ensemble does not change.
func (p *Plan) oracles(r *random) {
	if p.Seed > knownSeeds && p.Seed%8 != 5 && r.oneIn(12) { // every eighth seed has groups: weights.go
		p.askOracle()
	}
}

func (p *Plan) askOracle() {
	p.Oracle, p.Participants, p.Observers = true, 2, min(p.Observers, 1)
}

// underOracle removes from the plan what such a run does not have.
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

// says returns the answer of the oracle to a server now.
func (o *oracle) says(p *process) bool {
	return o.w.plan.Oracle && (o.holder == p.place || o.w.is(OracleTellsBoth) && p.place <= 2)
}

// begins makes a server that starts ask the oracle again and again. Answers take up to half
// a tick.
func (o *oracle) begins(p *process) {
	if !o.w.plan.Oracle {
		return
	}
	tickMs := o.w.plan.TickMs
	take := func(said bool, askedMs int64) {
		before := p.permittedMs
		if p.mayMs = 0; said {
			p.mayMs = askedMs + replica.PermissionMs(tickMs)
		}
		if p.permittedMs = p.mayMs; said && o.w.is(PermissionOutlives) {
			p.permittedMs = math.MaxInt64
		}
		if (before == 0) != (p.permittedMs == 0) {
			p.push(replica.Event{Kind: replica.EventTick})
		}
	}
	var ask func()
	ask = func() {
		said, askedMs := o.says(p), p.now().MonoMs
		p.awake(p.random.between(0, tickMs/2), func() {
			take(said, askedMs)
			p.awake(max(tickMs/4, 1), ask)
		})
	}
	p.mayMs, p.permittedMs = 0, 0
	p.awake(0, ask)
}

// stepped checks whether both servers serve together.
func (o *oracle) stepped(p *process) {
	if !o.w.plan.Oracle || p.place > 2 {
		return
	}
	o.together = o.follows(1, 2) || o.follows(2, 1)
}

// follows reports whether a server serves as the follower of the other one, which counts it
// among its followers: a leader that stalls may not know that it no longer leads.
func (o *oracle) follows(place, leader int) bool {
	f, l := o.w.server(place), o.w.server(leader)
	if !f.up || !l.up || !f.replica.Serving() || !l.replica.Serving() {
		return false
	}
	at, to := f.replica.Peer(), l.replica.Peer()
	_, epoch := at.Epochs()
	_, led := to.Epochs()
	return at.State() == zab.Following && to.State() == zab.Leading && epoch == led &&
		slices.ContainsFunc(to.Learners(), func(l zab.Learner) bool { return l.Server == f.id && l.Stage == zab.LearnerServing })
}

// ended handles the end of a server. If it had the permission and served together with the
// other server, the permission moves.
func (o *oracle) ended(p *process) {
	if !o.w.plan.Oracle || p.place != o.holder || !o.together {
		return
	}
	life, tickMs := p.life, o.w.plan.TickMs
	o.w.after(p.random.between(1, 4*tickMs), func() {
		if p.life != life || p.up || o.holder != p.place {
			return // it has restarted and may go on
		}
		o.takeBack(func() int { return 3 - p.place })
	})
}

// takeBack withdraws the permission from both for more than two ticks. Then one of them
// gets it.
func (o *oracle) takeBack(next func() (place int)) {
	tickMs, r := o.w.plan.TickMs, o.w.server(o.holder).random
	o.w.note(o.w.server(o.holder).node, "ORACLE", 0, 0, "permits nothing")
	o.holder = 0
	o.w.after(2*tickMs+1+r.between(0, 4*tickMs), func() {
		o.holder = next()
		o.w.note(o.w.server(o.holder).node, "ORACLE", 0, 0, "permits")
	})
}

// moves moves the permission now and then while both serve, as an operator does before work
// on a machine. The server that had it may stall meanwhile. If they do not serve together
// when the other one is to get it, it goes back.
func (o *oracle) moves() {
	if !o.w.plan.Oracle {
		return
	}
	r := branch(o.w.plan.Seed, "permission", 0)
	var move func()
	move = func() {
		if before := o.holder; before != 0 && o.together {
			o.takeBack(func() int {
				if o.together {
					return 3 - before
				}
				return before
			})
		}
		o.w.after(r.between(5, 60)*o.w.plan.TickMs, move)
	}
	o.w.after(r.between(5, 60)*o.w.plan.TickMs, move)
}

// sayable is the quorum in a run with an oracle: a server that may go on alone is a quorum,
// and also one whose permission was withdrawn less than a tick ago.
type sayable struct {
	quorum.Set
	oracle *oracle
}

// Enough implements quorum.Set.
func (s sayable) Enough(servers quorum.IDs) bool {
	return s.Set.Enough(servers) || slices.ContainsFunc(servers, func(id quorum.ID) bool {
		p := s.oracle.w.byID(id)
		return p != nil && (s.oracle.says(p) || p.now().MonoMs < p.mayMs)
	})
}
