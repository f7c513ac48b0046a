package sim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// port is the server's end of a client's connection.
type port struct {
	p          *process
	id         session.ConnID
	stream     *stream
	greeted    bool
	session    zk.SessionID
	timeoutMs  int64
	fresh      bool // its session was attached in this step
	ended      bool // nothing more is read
	left       bool // its client has left in this step
	identities []zk.Identity
	out        []byte
	late       []byte // of a mutant: events to be sent after out
	lastReply  int    // where the last reply begins in out
	unanswered int
	stays      map[string]zk.WatchMode // of a mutant: persistent watches
	told       map[string]bool
	closing    bool
}

// listen accepts a client's connection.
func (p *process) listen(s *stream) {
	p.connID++
	c := &port{p: p, id: p.connID, stream: s, identities: auth.Connected("10.0.1." + fmt.Sprint(int(s.far-firstClient)))}
	p.ports[c.id] = c
	s.received, s.ended = c.read, c.lost
}

func (c *port) lost() { c.p.push(replica.Event{Kind: replica.EventDisconnect, Conn: c.id}) }

// read reads whole frames.
func (c *port) read() {
	s := c.stream
	for !c.ended && len(s.in) >= wire.PrefixBytes {
		n, err := wire.FrameLength(s.in, wire.FrameBytesMax)
		if err != nil {
			c.p.w.fail(fmt.Errorf("server %v cannot read what %v sends: %w", s.self, s.far, err))
			return
		}
		if len(s.in) < wire.PrefixBytes+n {
			return
		}
		c.frame(bytes.Clone(s.in[wire.PrefixBytes : wire.PrefixBytes+n]))
		s.take(wire.PrefixBytes + n)
	}
}

func (c *port) frame(payload []byte) {
	if !c.greeted {
		c.greeted = true
		r, err := wire.DecodeConnectRequest(payload)
		c.p.w.fail(err)
		c.p.mutateConnect(&r)
		c.p.push(replica.Event{Kind: replica.EventConnect, Conn: c.id, Connect: &r, Identities: c.identities})
		return
	}
	e := replica.Event{Kind: replica.EventRequest, Conn: c.id, Request: new(zk.Request), Body: payload[wire.HeaderBytes:], Identities: c.identities}
	if wire.DecodeRequest(payload, wire.FrameBytesMax, e.Request) != nil {
		e.Code = zk.ErrMarshalling
	}
	if e.Request.Op == zk.OpReconfig { // the operator's credential
		e.Identities = append(slices.Clone(e.Identities), auth.Super)
	}
	if e.Request.Op == zk.OpAuth {
		e.Kind, e.Code = replica.EventAuth, c.proved(e.Request)
		e.Identities = c.identities
	}
	c.ended = e.Request.Op == zk.OpCloseSession
	c.mutateAsked(&e)
	if c.mutateRequest(&e) {
		c.p.push(e)
	}
}

// put changes what this step will send to a client.
func (p *process) put(id session.ConnID, f func(*port)) {
	if c := p.ports[id]; c != nil {
		if len(c.out) == 0 && len(c.late) == 0 && !c.closing {
			p.inFlight = append(p.inFlight, c)
		}
		f(c)
	}
}

// Connected implements replica.Clients.
func (p *process) Connected(id session.ConnID, r *wire.ConnectResponse) {
	r = p.mutateConnected(r)
	p.w.watcher.touches.connect(p, r.Session) // even if the client has left, because a late loop does not know that
	p.put(id, func(c *port) {
		c.session, c.timeoutMs, c.fresh = r.Session, int64(r.TimeoutMs), r.Session != 0
		p.w.fail(p.w.watcher.model.Attached(r.Session, p.replica.Tree().LastZxid()))
		c.out = wire.AppendConnectResponse(c.out, r)
	})
}

// Reply implements replica.Clients.
func (p *process) Reply(id session.ConnID, h wire.ReplyHeader, r *zk.Result) {
	h, r = p.mutateAnswer(h, r)
	p.put(id, func(c *port) { c.mutateReply(wire.AppendReply(nil, h, r)) })
}

// Reached implements replica.Clients. In the simulation no connection reads by itself.
func (p *process) Reached(session.ConnID) {
	p.w.fail(errors.New("a connection is told to read by itself"))
}

// Notify implements replica.Clients.
func (p *process) Notify(conns []session.ConnID, e *zk.Event) {
	for _, id := range conns {
		p.put(id, func(c *port) {
			if c.mutateEvent(e) {
				c.mutateNotify(wire.AppendEvent(nil, e))
			}
		})
	}
}

// Notified implements replica.Clients.
func (p *process) Notified() {}

// Close implements replica.Clients.
func (p *process) Close(id session.ConnID) { p.put(id, func(c *port) { c.closing = true }) }

// deliver sends what was collected, when the step is over.
func (p *process) deliver() {
	if !p.up {
		return
	}
	for _, c := range p.inFlight {
		if c.fresh {
			c.fresh = false
			p.w.watcher.attached(p, c)
		}
		c.stream.send(c.out)
		c.stream.send(c.late)
		c.out, c.late, c.lastReply = nil, nil, 0
		if c.closing {
			c.ended = true
			c.stream.close()
			c.lost()
		}
	}
	p.inFlight = p.inFlight[:0]
}

// remove removes the connections that have ended.
func (p *process) remove(batch []replica.Event) {
	for i := range batch {
		if batch[i].Kind == replica.EventDisconnect {
			delete(p.ports, batch[i].Conn)
		}
	}
}
