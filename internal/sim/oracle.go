package sim

import (
	"math"
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

// begins has a server that starts ask, and ask again. Answers take up to half a tick.
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

// stepped looks whether the two serve together.
func (o *oracle) stepped(p *process) {
	if !o.w.plan.Oracle || p.place > 2 {
		return
	}
	o.together = o.follows(1, 2) || o.follows(2, 1)
}

// follows reports whether a server serves as the follower of the other one, which has it among
// its own: a leader that stalls may not know that it is none any more.
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
		o.takeBack(func() int { return 3 - p.place })
	})
}

// takeBack leaves both without the permission for more than two ticks. Then one has it.
func (o *oracle) takeBack(next func() (place int)) {
	tickMs, r := o.w.plan.TickMs, o.w.server(o.holder).random
	o.w.note(o.w.server(o.holder).node, "ORACLE", 0, 0, "permits nothing")
	o.holder = 0
	o.w.after(2*tickMs+1+r.between(0, 4*tickMs), func() {
		o.holder = next()
		o.w.note(o.w.server(o.holder).node, "ORACLE", 0, 0, "permits")
	})
}

// moves has the permission move now and then while both serve, as an operator does before work
// on a machine. The one who had it may stall meanwhile. Where they do not serve together when
// the other one is to have it, it goes back to the one that had it.
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

// sayable is what is enough in a run with an oracle: whom it permits to go on alone counts as a
// quorum, and whom it has permitted that less than a tick ago.
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
