package sim

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/quorum"
)

// A leader whose disk is full ends no session, and must give way to servers that can write
// (zab-Z10).

// space checks that a leader without space stops leading if, for longer than it needs to
// learn of that, a quorum without it follows it, can be reached and has space.
func (o *observer) space(p *process) {
	if !p.leads() || !p.turns.full || !o.others(p) {
		p.crampedMs = o.w.nowMs
		return
	}
	if ms := o.w.nowMs - p.crampedMs; ms > o.w.plan.SyncMs+2*o.w.plan.TickMs {
		o.w.fail(&check.Violation{Property: "full", Detail: fmt.Sprintf("leader %v leads on without space on its disk for %d ms, and others could write", p.node, ms)})
	}
}

// others reports whether the servers that follow a leader are a quorum without it.
func (o *observer) others(p *process) bool {
	var able quorum.IDs
	for _, q := range o.w.servers {
		if q == p || !q.up || !q.serving || q.turns.full || q.untilMs > o.w.nowMs || !o.w.reachable(p.node, q.node) {
			continue
		}
		if leader, led := q.replica.Leader(); led && leader == p.id {
			able.Add(q.id)
		}
	}
	return p.proposed == nil && p.inForce.Quorum().Enough(able)
}
