package sim

import (
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// behind draws, for some runs, that loops of servers are late with their work for a while:
// each of their steps takes long, and handles only a part of what has arrived.
func (p *Plan) behind(r *random) {
	if p.Seed <= knownSeeds || !r.oneIn(5) {
		return
	}
	p.Behind = true
	for atMs := r.between(100, 2000); atMs < p.WildMs; atMs += r.between(100, 6000) {
		stepMs := r.between(2, p.TickMs/[]int64{1, 2, 4, 4, 4, 20}[r.below(6)])
		most := []int64{1, 1, 2, 3}[r.below(4)]
		p.add(Fault{AtMs: atMs, Kind: FaultSlowLoop, A: r.below(1 + p.servers()), ForMs: r.between(1, 20) * r.between(50, 400), N: most<<behindBits | stepMs})
	}
}

// behindBits are the bits of N in which FaultSlowLoop has the duration of a step; the bits
// above are the number of events in a step.
const behindBits = 16

// lanes are the events that wait for a loop that may be late, in the order of server.inbox:
// events that are not requests of clients come first, but if requests wait, half of a step
// is for them.
type lanes struct {
	most   int   // events in a step; 0 means all
	stepMs int64 // how long a step takes
	freeMs int64 // when the current step is over, in simulated time
	lateMs int64 // until when its steps took long
	first  []came
	others []came // requests
	taken  []came // events of the current step

	spokeMs map[zab.LinkID]int64 // when a message of each link was last handled
}

// came is an event with its arrival time, by the clock of the server.
type came struct {
	event replica.Event
	atMs  int64
}

func (l *lanes) put(e replica.Event, nowMs int64) {
	lane := &l.first
	if e.Kind.OfRequests() {
		lane = &l.others
	}
	*lane = append(*lane, came{e, nowMs})
}

// take returns the events of one step, and sets in now since when others have waited.
func (l *lanes) take(now *replica.Now) []replica.Event {
	if len(l.first) > 0 {
		now.ArrivedMs = l.first[0].atMs
	}
	passing, most := len(l.first), len(l.others)
	if l.most > 0 {
		passing = min(passing, l.most)
		if len(l.others) > 0 {
			passing = min(passing, max(l.most/2, 1))
		}
		most = min(most, max(l.most-passing, 1))
	}
	l.taken = append(append(l.taken[:0], l.first[:passing]...), l.others[:most]...)
	batch := make([]replica.Event, 0, passing+most)
	for _, c := range l.taken {
		batch = append(batch, c.event)
	}
	l.first, l.others = l.first[passing:], l.others[most:]
	for _, lane := range [][]came{l.first, l.others} {
		if len(lane) > 0 && (now.WaitsMs == 0 || lane[0].atMs < now.WaitsMs) {
			now.WaitsMs = lane[0].atMs
		}
	}
	return batch
}

func (l *lanes) empty() bool { return len(l.first)+len(l.others) == 0 }

// fallBehind makes a server's steps take long for a while.
func (p *process) fallBehind(f *Fault) {
	p.lanes.most, p.lanes.stepMs = int(f.N>>behindBits), f.N&(1<<behindBits-1)
	p.w.after(f.ForMs, p.keepUp)
}

// keepUp ends that.
func (p *process) keepUp() {
	if p.lanes.stepMs > 0 {
		p.lanes.most, p.lanes.stepMs, p.lanes.lateMs = 0, 0, p.w.nowMs
	}
}

// cameMs returns when the first waiting message arrived that shows that a session's client
// lives; false for none.
func (p *process) cameMs(session zk.SessionID) (int64, bool) {
	for _, c := range p.lanes.first {
		if p.w.watcher.touches.told[c.event.Message][session] && p.links[c.event.Link] != nil {
			return c.atMs, true
		}
	}
	for _, c := range p.lanes.others {
		port := p.ports[c.event.Conn]
		if c.event.Kind != replica.EventDisconnect && port != nil && port.session == session && !port.closing {
			return c.atMs, true
		}
	}
	return 0, false
}

// stepped checks that a step has not considered a leader silent although a message of it
// arrived in time, and is among those that the step has taken or that wait.
func (l *lanes) stepped(p *process, nowMs int64, left []zab.Reason) {
	patientMs := min(p.w.plan.SyncMs, p.w.plan.InitMs)
	for _, came := range [][]came{l.taken, l.first} {
		for _, c := range came {
			if link := p.links[c.event.Link]; c.event.Kind != replica.EventMessage || link == nil || !link.outgoing {
				continue
			}
			spokeMs, has := l.spokeMs[c.event.Link]
			if has && c.atMs-spokeMs <= patientMs && slices.Contains(left, zab.ReasonSilence) {
				p.w.fail(&check.Violation{Property: "silence", Detail: fmt.Sprintf("server %v takes its leader for silent, and a message came %d ms after the last",
					p.node, c.atMs-spokeMs)})
			}
		}
	}
	for _, c := range l.taken {
		if c.event.Kind == replica.EventMessage {
			l.spokeMs[c.event.Link] = nowMs
		}
	}
}
