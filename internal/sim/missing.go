package sim

import (
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
)

// miss takes servers away for good when all is well, as many as the ensemble can do
// without, mostly with the leader among them: their processes are killed, their machines
// lose power, they go silent, or their disks hang. Within the time limit for healing, the others
// must serve, and every client must have written again.
func (w *world) miss() {
	if w.plan.Solo {
		return
	}
	r := branch(w.plan.Seed, "missing", 1)
	var order []*process
	for _, p := range w.servers {
		order = slices.Insert(order, r.below(len(order)+1), p)
	}
	if l := w.leader(); l != nil && !r.oneIn(4) {
		order = slices.Insert(order, 0, l)
	}
	config, hung := w.newestConfig(), false
	for _, p := range order {
		gone := func(id quorum.ID) bool { return id == p.id || w.byID(id).missing }
		if p.missing || !config.Participants().Has(p.id) || !without(config, gone) {
			continue
		}
		p.missing = true
		switch r.below(4) {
		case 0:
			p.kill("for good")
		case 1:
			p.power(0, true, "for good")
		case 2:
			p.note("disk hangs", 0)
			if p.turns.hang(); r.oneIn(2) {
				hung = true
				w.after(r.between(1, hangMost), p.loseLinks) // it loses its role with work on its disk
			}
		default:
			p.note("mute", 0)
			p.stall(longer)
			w.trouble.disturb(0) // the leader does not receive what its clients have sent it
			w.watcher.gone(p)
		}
	}
	for _, c := range w.clients {
		c.program.final = false
	}
	if w.still = false; hung {
		w.awaitLeader()
	}
	w.comeToRest("servers were taken away")
}

// longer is more than a run takes.
const longer = 7 * 24 * 3600_000
