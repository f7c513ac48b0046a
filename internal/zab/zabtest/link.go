package zabtest

import (
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// frame is what travels on a link: a message, a snapshot, or the end of the link.
type frame struct {
	message  *zab.Message
	snapshot []zab.Record
	isTree   bool
	end      bool
}

// pipe is one direction of a connection. What is sent arrives late and in order or, if the
// connection breaks, not at all.
type pipe struct {
	from, to         *server
	fromLink, toLink zab.LinkID
	fromLife, toLife int
	frames           []frame
	moving, broken   bool
	back             *pipe
}

// connect makes a connection from a learner to a leader or an observer master, or reports that
// it cannot be made.
func (w *World) connect(s *server, target quorum.ID, master bool) {
	life := s.life
	w.after(w.delay(20), func() {
		if s.life != life || !s.up {
			return
		}
		t := w.server(target)
		if !t.up || !w.reachable(s.id, target) || s == t {
			s.push(zab.Event{Kind: zab.EventLinkDown})
			return
		}
		w.links += 2
		out := &pipe{from: s, to: t, fromLink: zab.LinkID(w.links - 1), toLink: zab.LinkID(w.links)}
		in := &pipe{from: t, to: s, fromLink: out.toLink, toLink: out.fromLink, back: out}
		out.back = in
		for _, p := range []*pipe{out, in} {
			p.fromLife, p.toLife = p.from.life, p.to.life
		}
		s.pipes[out.fromLink], t.pipes[in.fromLink] = out, in
		t.push(zab.Event{Kind: zab.EventLinkUp, Link: out.toLink, Observers: master})
		s.push(zab.Event{Kind: zab.EventLinkUp, Link: out.fromLink, Outgoing: true})
	})
}

func (w *World) reachable(a, b quorum.ID) bool {
	return !w.blocked[[2]quorum.ID{a, b}] && !w.blocked[[2]quorum.ID{b, a}]
}

// send puts a frame on its way.
func (p *pipe) send(f frame) {
	if p.broken {
		return
	}
	p.frames = append(p.frames, f)
	p.move()
}

// move makes the next frame arrive, unless the direction is cut: then everything waits, as with
// TCP.
func (p *pipe) move() {
	w := p.from.w
	if p.moving || p.broken || len(p.frames) == 0 || w.blocked[[2]quorum.ID{p.from.id, p.to.id}] {
		return
	}
	p.moving = true
	most := 4
	if w.chance.oneIn(30) {
		most = 120
	}
	w.after(w.delay(most), func() {
		p.moving = false
		if p.broken || w.blocked[[2]quorum.ID{p.from.id, p.to.id}] {
			return
		}
		f := p.frames[0]
		p.frames = p.frames[1:]
		p.arrive(f)
		p.move()
	})
}

// arrive passes a frame to the server at the other end, if it is still alive.
func (p *pipe) arrive(f frame) {
	t := p.to
	if t.life != p.toLife || t.pipes[p.toLink] == nil {
		return
	}
	switch {
	case f.end:
		delete(t.pipes, p.toLink)
		t.push(zab.Event{Kind: zab.EventLinkDown, Link: p.toLink})
	case f.isTree:
		if p.from.life == p.fromLife && p.from.pipes[p.fromLink] != nil {
			// Fuzzy: includes what was delivered while the tree was on its way.
			f.snapshot = slices.Clone(p.from.tree)
		}
		t.takeTree(p.toLink, f.snapshot)
	default:
		m := p.from.w.opts.Mutant.message(*f.message)
		p.from.w.note("%d -> %d %s", p.from.id, t.id, m.String())
		p.from.w.opts.Mutant.relays(t, &m)
		t.push(zab.Event{Kind: zab.EventReceive, Link: p.toLink, Message: &m})
	}
}

// close ends a connection after what was sent. The other end learns of it after everything else
// has arrived.
func (s *server) close(id zab.LinkID) {
	p := s.pipes[id]
	if p == nil {
		return
	}
	delete(s.pipes, id)
	p.send(frame{end: true})
	p.back.broken = true
}

// reset breaks a connection at once: frames on the way are lost. A side that cannot be reached
// is not told.
func (p *pipe) reset() {
	for _, q := range []*pipe{p, p.back} {
		q.frames, q.broken = nil, true
		if q.to.life == q.toLife && q.to.pipes[q.toLink] != nil && !q.from.w.blocked[[2]quorum.ID{q.from.id, q.to.id}] {
			delete(q.to.pipes, q.toLink)
			q.to.push(zab.Event{Kind: zab.EventLinkDown, Link: q.toLink})
		}
	}
}

// Cut stops what one server sends to another; it waits until Heal.
func (w *World) Cut(from, to quorum.ID) {
	w.blocked[[2]quorum.ID{from, to}] = true
	w.note("cut %d -> %d", from, to)
}

// Heal ends all cuts.
func (w *World) Heal() {
	w.note("heal")
	clear(w.blocked)
	for _, s := range w.servers {
		for _, id := range s.linkIDs() {
			s.pipes[id].move()
			s.pipes[id].back.move()
		}
	}
}
