package lab

import (
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// frame is what travels on a connection: a message, a snapshot, or the end.
type frame struct {
	message *zab.Message
	tree    []zab.Record
	isTree  bool
	end     bool
}

func (f frame) kind() string {
	switch {
	case f.end:
		return "close"
	case f.isTree:
		return "snapshot"
	}
	return f.message.Kind.String()
}

func (f frame) text() string {
	switch {
	case f.end:
		return "the connection is closed"
	case f.isTree:
		return "a snapshot"
	}
	text := f.message.String()
	if f.message.Kind == zab.KindProposal && len(f.message.Payload) > 0 {
		text += " " + string(f.message.Payload)
	}
	return text
}

// conn is a connection from a learner to its leader. As in TCP, frames keep their order,
// and the connection ends if a frame cannot arrive.
type conn struct {
	w                *World
	from, to         *server
	fromLink, toLink zab.LinkID
	fromLife, toLife int
	fromLast, toLast int64 // when the last frame to each side arrives
	broken           bool
}

// dialUs is how long a connection attempt without an answer takes.
const dialUs = 800_000

// connect connects to a leader, or reports that it is not possible.
func (z *zabServer) connect(leader quorum.ID) {
	e, s := z.ensemble, z.server
	t := e.w.find(nameOf(leader))
	if t == nil || !e.w.connected(s.id, t.id) {
		s.after(dialUs, func() { z.push(zab.Event{Kind: zab.EventLinkDown}) })
		return
	}
	life := t.life
	s.after(2*delayMinUs, func() {
		peer, alive := t.part.(*zabServer)
		if !alive || t.life != life || !e.w.connected(s.id, t.id) {
			z.push(zab.Event{Kind: zab.EventLinkDown})
			return
		}
		e.links += 2
		c := &conn{w: e.w, from: s, to: t, fromLink: e.links - 1, toLink: e.links, fromLife: s.life, toLife: t.life}
		z.conns[c.fromLink], peer.conns[c.toLink] = c, c
		t.hand(func() { peer.push(zab.Event{Kind: zab.EventLinkUp, Link: c.toLink}) })
		z.push(zab.Event{Kind: zab.EventLinkUp, Link: c.fromLink, Outgoing: true})
	})
}

// send sends a frame to the other side.
func (c *conn) send(from *server, f frame) {
	if c.broken {
		return
	}
	to, last := c.to, &c.toLast
	if from == c.to {
		to, last = c.from, &c.fromLast
	}
	on := way{from.id, to.id}
	*last = max(*last+1000, c.w.nowUs+c.w.delayUs())
	one := c.w.fly(on, f.kind(), f.text(), *last, func() { c.arrive(to, f) }, func() { c.reset(nil) })
	if c.w.cut[on] {
		c.w.lose(one)
	}
}

// end returns one side of the connection: its part, its link, and whether it still exists.
func (c *conn) end(s *server) (z *zabServer, link zab.LinkID, alive bool) {
	link, life := c.toLink, c.toLife
	if s == c.from {
		link, life = c.fromLink, c.fromLife
	}
	z, alive = s.part.(*zabServer)
	return z, link, alive && s.life == life && z.conns[link] != nil
}

// arrive delivers a frame.
func (c *conn) arrive(to *server, f frame) {
	if c.broken {
		return
	}
	life := to.life
	to.hand(func() {
		z, link, alive := c.end(to)
		if !alive || to.life != life {
			return
		}
		switch {
		case f.end:
			delete(z.conns, link)
			z.push(zab.Event{Kind: zab.EventLinkDown, Link: link})
		case f.isTree:
			z.takeTree(link, f.tree)
		default:
			z.push(zab.Event{Kind: zab.EventReceive, Link: link, Message: f.message})
		}
	})
}

// reset breaks the connection: frames on their way are lost. A side that can be reached
// learns of it; any other side waits until it notices the silence. The side that asked for
// the reset is not told.
func (c *conn) reset(by *server) {
	if c.broken {
		return
	}
	c.broken = true
	for _, s := range []*server{c.from, c.to} {
		z, link, alive := c.end(s)
		if !alive {
			continue
		}
		if s == by {
			delete(z.conns, link)
			continue
		}
		life := s.life
		if c.w.connected(c.from.id, c.to.id) {
			c.w.at(c.w.nowUs+delayMinUs, func() {
				if s.life != life {
					return
				}
				s.hand(func() {
					if z.conns[link] == c {
						delete(z.conns, link)
						z.push(zab.Event{Kind: zab.EventLinkDown, Link: link})
					}
				})
			})
		}
	}
}

func (z *zabServer) linkIDs() []zab.LinkID {
	var ids []zab.LinkID
	for id := range z.conns {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
