package sim

import (
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/zab"
)

// longSteps draws, for some runs, that a process which stalls is in a long step, and not
// stopped. The others are told so, as server.tellBusy does, for at most initLimit.
func (p *Plan) longSteps(r *random) { p.LongSteps = p.Seed > knownSeeds && r.oneIn(5) }

// stall stops a process for a while.
func (p *process) stall(ms int64) {
	p.untilMs = p.w.nowMs + ms
	if p.w.plan.LongSteps {
		p.tellBusy(p.w.nowMs)
	}
}

// tellBusy sends heartbeats for a process that has been in one step since then.
func (p *process) tellBusy(sinceMs int64) {
	p.later(max(p.w.plan.TickMs/2, 1), func() {
		if !p.up || p.untilMs <= p.w.nowMs || p.w.nowMs-sinceMs > p.w.plan.InitMs {
			return
		}
		busy := zab.Busy()
		for _, id := range p.replica.Heartbeats(nil) {
			if l := p.links[id]; l != nil {
				l.write(peerwire.AppendMessage(nil, &busy, !senderOf(l.outgoing)))
			}
		}
		p.tellBusy(sinceMs)
	})
}
