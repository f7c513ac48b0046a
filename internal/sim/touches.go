package sim

import (
	"slices"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// touches follows what shows that clients live: from the server that has received it,
// in the next PING that leaves for the leader, to the step in which the leader
// takes that. What the servers write into the PING does not count here.
type touches struct {
	w     *world
	kept  map[*process]kept      // by a learner since its last PING
	onWay map[*stream][]kept     // PINGs on their way to this end, each with what it tells
	told  map[*zab.Message]kept  // one that has arrived
	last  map[zk.SessionID]touch // of each session
	own   map[*process]kept      // by a server for which a session is its own
	fresh map[*process]kept      // by a learner, in the step that it takes
}

// kept are sessions of which a learner has a heartbeat: true if it must
// report it, false if it may.
type kept map[zk.SessionID]bool

// touch notes that a server has received from a client.
type touch struct {
	by, leader *process
	lives      [2]int // of both
	roles      [2]int
	atMs       int64 // of the simulation
	clockMs    int64 // of the leader
}

func newTouches(w *world) *touches {
	return &touches{
		w: w, kept: map[*process]kept{}, onWay: map[*stream][]kept{}, told: map[*zab.Message]kept{},
		last: map[zk.SessionID]touch{}, own: map[*process]kept{}, fresh: map[*process]kept{},
	}
}

// sent is a message that leaves; a learner's PING takes along what was received.
func (s *touches) sent(l *link, m *zab.Message) {
	if !l.outgoing || m.Kind != zab.KindPing {
		return
	}
	s.onWay[l.stream.other] = append(s.onWay[l.stream.other], s.kept[l.p])
	delete(s.kept, l.p)
	for id := range s.fresh[l.p] { // it may have shown that after this PING
		s.maybe(l.p, id)
	}
}

// done is a server that has carried a step out.
func (s *touches) done(p *process) { delete(s.fresh, p) }

// received is a message that has come.
func (s *touches) received(l *link, m *zab.Message) {
	if queue := s.onWay[l.stream]; !l.outgoing && m.Kind == zab.KindPing && len(queue) > 0 {
		s.told[m] = queue[0]
		s.onWay[l.stream] = queue[1:]
	}
}

// left is a server whose role has ended: what it was to tell is lost. Of sessions of
// its own it may tell yet.
func (s *touches) left(p *process) {
	delete(s.kept, p)
	for id := range s.own[p] {
		s.own[p][id] = false
	}
}

// gone is a server that has ended.
func (s *touches) gone(p *process) {
	delete(s.kept, p)
	delete(s.own, p)
}

// stepped are the heartbeats in a batch, once it is done with: what stands in
// it after a tick came too late for that.
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

// request is what a client has asked for on a connection.
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

// sure is a heartbeat that counts.
func (s *touches) sure(p *process, id zk.SessionID) {
	if s.maybe(p, id); p.leads() {
		s.w.watcher.expiry.Alive(p.id, id, p.now().MonoMs)
	} else {
		s.kept[p][id] = true
	}
}

// message is what a learner has sent a leader, or an observer master, which is to tell it to
// the leader with its own. If the link was ended in the same step,
// the leader may have done that before.
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
	case m.Kind == zab.KindRequest && m.Request.Op.IsWrite(): // it counts as one if it is decided
		s.maybe(p, m.Request.Session)
	}
}

// maybe is what may count as a heartbeat.
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

// undisturbedMs is when the last message of a client came, on the clock of a leader: 0
// if trouble may have kept that from the leader.
func (s *touches) undisturbedMs(leader *process, id zk.SessionID) int64 {
	h, known := s.last[id]
	if !known || h.leader != leader || h.atMs <= s.w.trouble.untilMs ||
		h.lives != [2]int{h.by.life, leader.life} || h.roles != [2]int{h.by.roles, leader.roles} {
		return 0
	}
	return h.clockMs
}
