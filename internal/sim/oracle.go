package sim

import (
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// oracle lets one of two servers go on without the other, and keeps what an operator promises
// of it: one server at a time, and only one that has all that was committed. So the permission moves
// when the server that has it ends while the other is in step with it: first it is taken back,
// and some ticks later the other one has it.
type oracle struct {
	w      *world
	holder int  // the place of the server that may go on alone, 0: neither
	ahead  bool // it has, or may have, decided what the other does not have
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
	permits := false
	var ask func()
	ask = func() {
		if said := o.says(p); said != permits {
			permits = said
			p.push(replica.Event{Kind: replica.EventOracle, OK: permits})
		}
		p.awake(max(o.w.plan.TickMs/4, 1), ask)
	}
	p.awake(0, ask)
}

// stepped looks whether the server that may go on alone has done so.
func (o *oracle) stepped(p *process) {
	if !o.w.plan.Oracle || p.place != o.holder || !p.replica.Serving() {
		return
	}
	peer := p.replica.Peer()
	o.ahead = peer.State() == zab.Leading && !slices.ContainsFunc(peer.Learners(), func(l zab.Learner) bool {
		return !l.Observer && l.Stage == zab.LearnerServing
	})
}

// ended is the end of a server. If it was the one, and the other is in step, the permission moves.
func (o *oracle) ended(p *process) {
	if !o.w.plan.Oracle || p.place != o.holder || o.ahead {
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
