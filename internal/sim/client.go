package sim

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// client is the shell of one session, like package client in production. Its program is in
// workload.go.
type client struct {
	w         *world
	place     int // the place among the clients; clients at the same place follow one another
	number    int // counts all clients
	node      node
	random    *random
	manner    *random // draws the client's character
	machine   *clientsession.Machine
	gone      bool
	events    []clientsession.Event // events that wait for the machine, with the current one
	untilMs   int64                 // it stalls until then
	lagMs     int64                 // how much its clock has lost while it stalled
	stoppedMs int64                 // its clock is stopped until then
	wakeMs    int64

	conn    int64 // the machine's number of the current connection
	stream  *stream
	out     []byte // to be sent on it, in a step of its own
	server  quorum.ID
	greeted bool
	partial bool      // the server says that it is read-only
	body    []byte    // of the reply that the machine is handling
	result  zk.Result // the decoded body
	header  wire.ReplyHeader

	session check.Session
	watches *check.Watches
	who     check.Asker
	program program
	pending []pendingReply
}

// pendingReply is a request without an answer; it says what the reply belongs to.
type pendingReply struct {
	xid   zk.Xid
	req   *zk.Request
	floor zk.Zxid // the newest zxid that anybody had seen when it was sent
}

func newClient(w *world, place, generation int) *client {
	c := &client{w: w, place: place, number: generation*1000 + place, node: firstClient + node(place)}
	c.random = branch(w.plan.Seed, "client", c.number)
	c.manner = branch(w.plan.Seed, "manner", c.number)
	c.session = check.NewSession(w.watcher.order.ShownBetween)
	c.watches = check.NewWatches(w.watcher.model, &c.who)
	c.program.begin(c)
	return c
}

func (c *client) start() {
	c.machine = clientsession.New(clientsession.Config{
		TimeoutMs: int32(c.timeoutMs()), Seed: c.random.next(), BackoffMinMs: 20, BackoffMaxMs: 500,
		ReadOnly: c.w.plan.ReadOnly && c.manner.oneIn(2),
	}, c.nowMs())
	c.step(clientsession.Event{Kind: clientsession.Tick})
	c.prove()
	if c.place == 1 && c.w.plan.unread() {
		c.program.submit(zk.Request{Op: zk.OpCreate, Path: unreadPath, ACL: zk.OpenACL()})
	}
	c.program.think()
}

// timeoutMs returns the timeout that the client asks for.
func (c *client) timeoutMs() int64 {
	if ms := c.w.plan.SessionMs; c.w.plan.Timeouts {
		return branch(c.w.plan.Seed, "timeout", c.number).between(ms/2, 2*ms)
	}
	return c.w.plan.SessionMs
}

// later plans something that waits while the client stalls, and does not happen if the
// client is gone.
func (c *client) later(ms int64, what func()) {
	c.w.after(ms, func() {
		switch {
		case c.gone:
		case c.untilMs > c.w.nowMs:
			c.later(c.untilMs-c.w.nowMs, what)
		default:
			what()
		}
	})
}

// nowMs returns the time of the client's clock.
func (c *client) nowMs() int64 { return c.w.nowMs - c.lagMs }

// step gives the machine an event and carries out the effects. Events that these cause wait
// until all effects are carried out, because the effects are valid until the machine's next
// step.
func (c *client) step(e clientsession.Event) {
	c.events = append(c.events, e)
	if len(c.events) > 1 {
		return
	}
	for at := 0; at < len(c.events); at++ {
		e := c.events[at]
		effects := c.machine.Step(c.nowMs(), &e)
		for i := range effects {
			c.carryOut(&effects[i])
		}
	}
	c.events = c.events[:0]
	c.planWake()
}

// planWake plans the tick that the machine wants.
func (c *client) planWake() {
	at := c.machine.WakeMs()
	if at == c.wakeMs || at == never {
		return
	}
	c.wakeMs = at
	c.later(at-c.nowMs(), func() {
		if c.wakeMs == at {
			c.wakeMs = 0
			c.step(clientsession.Event{Kind: clientsession.Tick})
		}
	})
}

// never is what WakeMs returns for a machine that wants nothing.
const never = math.MaxInt64

func (c *client) carryOut(e *clientsession.Effect) {
	switch e.Kind {
	case clientsession.Resolve:
		var all []string
		for _, p := range c.w.servers {
			all = append(all, fmt.Sprint(p.place))
		}
		c.later(0, func() { c.step(clientsession.Event{Kind: clientsession.Resolved, Addresses: all, Found: true}) })
	case clientsession.Dial:
		c.dial(e)
	case clientsession.Greet:
		c.stream.send(wire.AppendConnectRequest(nil, &wire.ConnectRequest{
			LastZxidSeen: e.LastZxid, TimeoutMs: e.Greeting.TimeoutMs, Session: e.Greeting.Session, Password: e.Greeting.Password[:],
			ReadOnly: e.Greeting.ReadOnly, HasReadOnly: true,
		}))
	case clientsession.Send:
		c.send(e.Request)
	case clientsession.Probe:
		c.probe(e.Address)
	case clientsession.Drop:
		c.hangUp()
	case clientsession.Complete:
		c.program.complete(e)
	case clientsession.Notify:
		c.program.notify(e)
	case clientsession.EnterState:
		c.enter(e)
	}
}

// errRefused is the result of dialing a server that is down.
var errRefused = errors.New("connection refused")

func (c *client) dial(e *clientsession.Effect) {
	conn, p := e.Conn, c.serverAt(e.Address)
	c.conn = conn
	c.later(c.random.between(0, int64(c.w.plan.NetMs)), func() {
		switch {
		case c.conn != conn:
		case !c.w.reachable(c.node, p.node): // the machine has a time limit of its own
		case !p.up:
			c.step(clientsession.Event{Kind: clientsession.Lost, Conn: conn, Cause: errRefused})
		default:
			c.connected(p, conn)
		}
	})
}

// serverAt returns the server with an address that Resolve has returned.
func (c *client) serverAt(address string) *process {
	place, err := strconv.Atoi(address)
	must(err)
	return c.w.server(place)
}

// probe asks a server whether it is read-write, as isro does.
func (c *client) probe(address string) {
	p := c.serverAt(address)
	c.later(c.random.between(0, 2*int64(c.w.plan.NetMs)), func() {
		writes := p.up && c.w.reachable(c.node, p.node) && p.replica.Serving()
		c.step(clientsession.Event{Kind: clientsession.Probed, Addresses: []string{address}, Found: writes})
	})
}

func (c *client) connected(p *process, conn int64) {
	near, far := c.w.connect(c.node, p.node, c.random, c.delayMs)
	far.slowMs, far.random = p.delayMs, p.random
	c.stream, c.server, c.greeted, c.pending = near, p.id, false, nil
	near.received = c.read
	near.ended = func() {
		c.later(0, func() {
			c.step(clientsession.Event{Kind: clientsession.Lost, Conn: conn, Cause: errors.New("connection closed")})
		})
	}
	p.listen(far)
	c.step(clientsession.Event{Kind: clientsession.Dialed, Conn: conn})
}

func (c *client) delayMs() int64 {
	if c.random.oneIn(40) {
		return 20 * int64(c.w.plan.NetMs)
	}
	return int64(c.w.plan.NetMs)
}

func (c *client) hangUp() {
	if c.stream != nil {
		c.stream.close()
		c.stream = nil
	}
	c.conn, c.out = 0, nil
}

func (c *client) send(r *zk.Request) {
	switch r.Op {
	case zk.OpSetWatches, zk.OpSetWatches2:
		c.watches.Rearming(r.SetWatches)
	case zk.OpPing, zk.OpAuth:
	default:
		c.session.Sent(r.Xid)
		id, _ := c.machine.Session()
		c.w.watcher.asked.Sent(id, r)
		c.w.watcher.local.Asked(id, r)
		c.pending = append(c.pending, pendingReply{r.Xid, r, c.w.watcher.recent.Floor()})
	}
	c.w.note(c.node, "ask", nodeOf(c.server), 0, strconv.Itoa(int(r.Xid))+" "+r.Op.String()+" "+r.Path)
	if len(c.out) == 0 {
		conn := c.conn
		c.later(0, func() { c.flush(conn) })
	}
	c.out = wire.AppendRequest(c.out, c.mutateSend(r))
}

// flush passes the collected bytes to the connection. It tells the machine first, as
// package client does: what is in transit may be applied before anything else is known.
func (c *client) flush(conn int64) {
	if c.conn != conn {
		return
	}
	batch := c.out
	c.out = nil
	if !c.w.is(SentIsNotSent) {
		c.step(clientsession.Event{Kind: clientsession.Flushed, Conn: conn})
	}
	c.stream.send(batch)
}

// read takes whole frames, unless the client stalls.
func (c *client) read() {
	if c.untilMs > c.w.nowMs {
		s := c.stream
		c.later(0, func() {
			if s != nil && c.stream == s {
				c.read()
			}
		})
		return
	}
	for c.stream != nil && c.w.err == nil {
		s := c.stream
		if len(s.in) < wire.PrefixBytes {
			return
		}
		n, err := wire.FrameLength(s.in, wire.FrameBytesMax)
		if err != nil {
			c.w.fail(fmt.Errorf("client %v cannot read what %v sends: %w", c.node, s.far, err))
			return
		}
		if len(s.in) < wire.PrefixBytes+n {
			return
		}
		payload := append([]byte(nil), s.in[wire.PrefixBytes:wire.PrefixBytes+n]...)
		s.take(wire.PrefixBytes + n)
		c.frame(payload)
	}
}

func (c *client) frame(payload []byte) {
	if !c.greeted {
		c.greet(payload)
		return
	}
	h, body, err := wire.DecodeReplyHeader(payload)
	if err != nil {
		c.w.fail(err)
		return
	}
	if h.Xid == zk.XidNotification {
		c.event(h, body)
		return
	}
	c.reply(h, body)
}

// greet takes the answer to the handshake.
func (c *client) greet(payload []byte) {
	c.greeted = true
	r, err := wire.DecodeConnectResponse(payload)
	if err != nil {
		c.w.fail(err)
		return
	}
	what := "attached"
	if c.partial = r.ReadOnly; c.partial {
		what = "reads"
		c.w.tally.Partitioned++
	}
	c.w.note(c.node, what, nodeOf(c.server), 0, r.Session.String())
	c.watches.Connected(c.partial)
	c.w.fail(c.session.Connected(c.server, r.Session, c.partial))
	c.step(clientsession.Event{Kind: clientsession.Greeted, Conn: c.conn, Greeting: clientsession.Greeting{
		TimeoutMs: r.TimeoutMs, Session: r.Session, Password: r.Password, ReadOnly: r.ReadOnly,
	}})
}

func (c *client) event(h wire.ReplyHeader, body []byte) {
	e, err := wire.DecodeEvent(h, body)
	c.w.fail(err)
	c.w.note(c.node, "event", nodeOf(c.server), e.Zxid, e.Type.String()+" "+e.Path)
	c.w.fail(c.session.Saw(e.Zxid))
	c.w.fail(c.watches.Event(&e))
	c.w.tally.Watches++
	c.step(clientsession.Event{Kind: clientsession.Notified, Conn: c.conn, Watched: e})
}

func (c *client) reply(h wire.ReplyHeader, body []byte) {
	c.w.note(c.node, "answer", nodeOf(c.server), h.Zxid, strconv.Itoa(int(h.Xid))+" "+h.Code.Error())
	c.w.fail(c.session.Replied(h.Xid, h.Zxid))
	if h.Xid == zk.XidSetWatches {
		c.w.fail(c.watches.Rearmed(h.Zxid))
	} else {
		c.w.fail(c.watches.Replied(h.Zxid))
	}
	if c.w.err != nil {
		return
	}
	c.header, c.body, c.result = h, body, zk.Result{}
	if !c.partial {
		c.w.watcher.recent.Shown(h.Zxid)
	}
	if h.Xid >= 0 {
		if id, _ := c.machine.Session(); !c.partial && h.Code != zk.ErrSessionMoved {
			c.w.fail(c.w.watcher.model.Answered(id, h.Xid, h.Zxid))
		}
		c.answered(h, body)
	}
	c.step(clientsession.Event{Kind: clientsession.Replied, Conn: c.conn, Xid: h.Xid, Zxid: h.Zxid, Code: h.Code})
}

// answered compares a reply with the tree at its zxid, whatever the machine does with it.
func (c *client) answered(h wire.ReplyHeader, body []byte) {
	p := c.pending[0]
	c.pending = c.pending[1:]
	if c.partial {
		c.w.fail(c.w.watcher.refused(c, p.req, h.Code))
	}
	res := zk.Result{Op: p.req.Op}
	if h.Code == zk.OK || p.req.Op == zk.OpMulti && len(body) > 0 {
		var err error
		if res, err = wire.DecodeResult(p.req.Op, len(p.req.Ops), body); err != nil {
			c.w.fail(err)
			return
		}
	}
	c.result = res
	model, local := c.w.watcher.model, c.w.watcher.local
	c.who.Session, _ = c.machine.Session()
	c.who.Floor = p.floor
	switch op := p.req.Op; {
	case c.partial:
		c.w.fail(c.w.watcher.readOnly.Read(&c.who, p.req, h.Zxid, h.Code, &res))
	case op == zk.OpCloseSession && local.Had(c.who.Session): // its server has ended it, without a transaction
	case h.Code == zk.ErrEphemeralOnLocalSession:
		c.w.fail(local.Refused(c.who.Session))
		c.w.fail(c.w.watcher.asked.NotApplied(c.who.Session, p.req.Xid))
	case op == zk.OpSync:
	case op == zk.OpAddWatch && h.Code == zk.OK:
		c.watches.Added(p.req.Path, p.req.Watches, h.Zxid)
	case op == zk.OpRemoveWatches && h.Code == zk.OK:
		c.watches.TakenOff(p.req.Path, p.req.Watcher)
	case op == zk.OpAddWatch, op == zk.OpRemoveWatches:
	case op.IsWrite():
		c.w.fail(model.Wrote(&c.who, p.req, h.Zxid, h.Code, &res))
	default:
		c.w.fail(model.Read(&c.who, p.req, h.Zxid, h.Code, &res))
		if p.req.Watch && (h.Code == zk.OK || h.Code == zk.ErrNoNode && op == zk.OpExists) {
			c.watches.Armed(p.req.Path, op == zk.OpGetChildren || op == zk.OpGetChildren2, h.Code != zk.OK, h.Zxid)
		}
	}
}

func (c *client) enter(e *clientsession.Effect) {
	c.w.note(c.node, "state", 0, 0, e.State.String())
	switch {
	case e.State == clientsession.Connected:
		c.w.tally.Sessions++
	case e.State.Final():
		c.session.Ended()
		c.watches.Ended()
		c.later(c.random.between(0, 200), c.again)
	}
}

// again starts another client in place of one whose session is over.
func (c *client) again() {
	c.leave()
	next := newClient(c.w, c.place, c.number/1000+1)
	c.w.clients[c.place-1] = next
	next.start()
}

// leave ends a client silently.
func (c *client) leave() {
	c.gone = true
	c.program.abandon()
	if c.stream != nil {
		c.stream.abandon(c.random.oneIn(2))
		c.stream = nil
	}
}
