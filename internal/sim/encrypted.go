package sim

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// encrypted draws, for some runs, that links use TLS: package peernet then reports each write to
// a link as progress, not only writes that have waited. The other end need not have read anything.
func (p *Plan) encrypted(r *random) { p.Encrypted = p.Seed > knownSeeds && r.oneIn(5) }

// movesMax is how often within the silence limit a link reports progress, as in package peernet.
const movesMax = 10

// moves reports that something was written to a link.
func (l *link) moves() {
	p := l.p
	if !p.w.plan.Encrypted || p.w.nowMs-l.movedMs < p.w.plan.SyncMs/movesMax {
		return
	}
	l.movedMs = p.w.nowMs
	if p.w.is(OwnBytesCount) && l.outgoing {
		busy := zab.Busy()
		p.push(replica.Event{Kind: replica.EventMessage, Link: l.id, Message: &busy})
		return
	}
	p.push(replica.Event{Kind: replica.EventMoves, Link: l.id})
}

// leavesTheSilent checks that a server that serves as a learner has received something within three
// times the silence limit. Time in which the server itself stalls, or is behind, does not count.
func (p *process) leavesTheSilent() {
	if !p.serving || p.lanes.stepMs > 0 || p.lanes.freeMs > p.w.nowMs {
		return
	}
	if state := p.replica.Peer().State(); state != zab.Following && state != zab.Observing {
		return
	}
	for _, l := range p.links {
		sinceMs := max(l.readMs, p.untilMs, p.lanes.lateMs) // what it has not read yet may wait until then (seed 3352)
		if l.outgoing && p.w.nowMs-sinceMs > 3*p.w.plan.SyncMs+2000 {
			p.w.fail(fmt.Errorf("server %v serves, and %v, from which it learns, has sent nothing for %d ms", p.node, l.stream.far, p.w.nowMs-sinceMs))
		}
	}
}
