package sim

import (
	"slices"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// touches follows the proofs that clients live: from the server that has received one, in
// the next PING to the leader, to the step in which the leader handles the PING. It ignores
// what the servers themselves write into the PING.
type touches struct {
	w     *world
	kept  map[*process]kept      // by a learner, since its last PING
	onWay map[*stream][]kept     // PINGs in transit to this end, with what each reports
	told  map[*zab.Message]kept  // of a PING that has arrived
	last  map[zk.SessionID]touch // of each session
	own   map[*process]kept      // by a server that alone knows the session
	fresh map[*process]kept      // by a learner in its current step
}

// kept is the sessions of which a learner has a heartbeat: true if it must report the
// heartbeat, false if it may.
type kept map[zk.SessionID]bool

// touch records that a server has received from a client.
type touch struct {
	by, leader *process
	lives      [2]int // of both servers
	roles      [2]int
	atMs       int64 // in simulated time
	clockMs    int64 // by the leader's clock
}

func newTouches(w *world) *touches {
	return &touches{
		w: w, kept: map[*process]kept{}, onWay: map[*stream][]kept{}, told: map[*zab.Message]kept{},
		last: map[zk.SessionID]touch{}, own: map[*process]kept{}, fresh: map[*process]kept{},
	}
}

// sent handles a message that is sent: a learner's PING reports what was received.
func (s *touches) sent(l *link, m *zab.Message) {
	if !l.outgoing || m.Kind != zab.KindPing {
		return
	}
	s.onWay[l.stream.other] = append(s.onWay[l.stream.other], s.kept[l.p])
	delete(s.kept, l.p)
	for id := range s.fresh[l.p] { // it may have arrived after this PING was made
		s.maybe(l.p, id)
	}
}

// done handles the end of a server's step.
func (s *touches) done(p *process) { delete(s.fresh, p) }

// received handles a message that has arrived.
func (s *touches) received(l *link, m *zab.Message) {
	if queue := s.onWay[l.stream]; !l.outgoing && m.Kind == zab.KindPing && len(queue) > 0 {
		s.told[m] = queue[0]
		s.onWay[l.stream] = queue[1:]
	}
}

// left handles the end of a server's role: what it still had to report is lost. It may
// still report sessions of its own.
func (s *touches) left(p *process) {
	delete(s.kept, p)
	for id := range s.own[p] {
		s.own[p][id] = false
	}
}

// gone handles the end of a server's process.
func (s *touches) gone(p *process) {
	delete(s.kept, p)
	delete(s.own, p)
}

// stepped handles the heartbeats in a batch after the step. Those that come after a tick in
// the batch were too late for it.
func (s *touches) stepped(p *process, batch []replica.Event, effects *replica.Effects) {
	for i := range batch {
		e := &batch[i]
		switch e.Kind {
		case replica.EventRequest, replica.EventAuth:
			s.request(p, e.Conn)
		case replica.EventConnect:
			s.connect(p, e.Connect.Session)
		case replica.EventMessage:
			s.message(p, e.Message, closes(effects, e.Link))
		}
	}
	s.upgraded(p)
}

// closes reports whether a step has ended a link.
func closes(effects *replica.Effects, link zab.LinkID) bool {
	return slices.ContainsFunc(effects.Links, func(e zab.Effect) bool { return e.Kind == zab.EffectClose && e.Link == link })
}

// request handles a client's request on a connection.
func (s *touches) request(p *process, conn session.ConnID) {
	c := p.ports[conn]
	if c == nil || c.session == 0 || s.local(p, c) {
		return
	}
	s.maybe(p, c.session)
	if c.ended || c.closing || !p.serving {
		return
	}
	s.sure(p, c.session)
	if l := s.w.leader(); l != nil {
		s.last[c.session] = touch{
			by: p, leader: l, lives: [2]int{p.life, l.life}, roles: [2]int{p.roles, l.roles}, atMs: s.w.nowMs, clockMs: l.now().MonoMs,
		}
	}
}

// sure records a heartbeat that must count.
func (s *touches) sure(p *process, id zk.SessionID) {
	if s.maybe(p, id); p.leads() {
		s.w.watcher.expiry.Alive(p.id, id, p.now().MonoMs)
	} else {
		s.kept[p][id] = true
	}
}

// message handles a learner's message to a leader, or to an observer master, which has to
// report it to the leader with its own. If the link was ended in the same step, the leader
// may have done that before.
func (s *touches) message(p *process, m *zab.Message, over bool) {
	for id, sure := range s.told[m] {
		switch {
		case !p.leads() && sure && !over && p.hands(id):
			s.sure(p, id)
		case !p.leads():
			s.maybe(p, id)
		case sure && !over:
			s.w.watcher.expiry.Alive(p.id, id, p.now().MonoMs)
		default:
			s.maybe(p, id)
		}
	}
	delete(s.told, m)
	switch {
	case m.Kind == zab.KindRevalidate:
		s.maybe(p, m.Session)
	case m.Kind == zab.KindRequest && m.Request.Op.IsWrite(): // counts as a heartbeat if it is decided
		s.maybe(p, m.Request.Session)
	}
}

// maybe records what may count as a heartbeat.
func (s *touches) maybe(p *process, id zk.SessionID) {
	switch {
	case p.leads():
		s.w.watcher.expiry.MaybeAlive(p.id, id, p.now().MonoMs)
		return
	case s.kept[p] == nil:
		s.kept[p] = kept{id: false}
	case !s.kept[p][id]:
		s.kept[p][id] = false
	}
	if s.fresh[p] == nil {
		s.fresh[p] = kept{}
	}
	s.fresh[p][id] = false
}

// undisturbedMs returns when the last message of a client arrived, by the clock of a
// leader; 0 if trouble may have kept it from the leader.
func (s *touches) undisturbedMs(leader *process, id zk.SessionID) int64 {
	h, known := s.last[id]
	if !known || h.leader != leader || h.atMs <= s.w.trouble.untilMs ||
		h.lives != [2]int{h.by.life, leader.life} || h.roles != [2]int{h.by.roles, leader.roles} {
		return 0
	}
	return h.clockMs
}
