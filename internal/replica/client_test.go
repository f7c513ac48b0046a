package replica_test

import (
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// client is one connection of a client, with the rules that must hold for it.
type client struct {
	w          *world
	id         session.ConnID
	server     *server
	session    zk.SessionID // 0 until it is connected
	identities []zk.Identity
	xid        zk.Xid
	asked      []question // not answered yet, in order (replica-R3)
	watched    map[string]zk.Zxid
	seen       zk.Zxid
	closed     bool  // nothing more comes
	ended      bool  // it asks for nothing more
	beganMs    int64 // when it connected
	timeoutMs  int64 // as the client was told
}

// question is a request that waits for its answer.
type question struct {
	request *zk.Request
	shown   zk.Zxid // the newest zxid shown to any client, when it was asked
	atMs    int64
}

// handshake is the beginning of a connection.
type handshake struct {
	session   zk.SessionID
	timeoutMs int32
	seen      zk.Zxid
	readOnly  bool
	wrong     bool // the password
}

func (w *world) sortedClients() []*client {
	var all []*client
	for _, c := range w.clients {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *client) int { return int(a.id) - int(b.id) })
	return all
}

// connect opens a connection to a server that is up.
func (w *world) connect(id session.ConnID, s *server, h handshake) *client {
	c := &client{w: w, id: id, server: s, identities: auth.Connected(fmt.Sprintf("10.1.0.%d", id)), xid: zk.Xid(id) * 1000, seen: h.seen, watched: map[string]zk.Zxid{}}
	c.beganMs = w.now.MonoMs
	w.clients[id] = c
	r := &wire.ConnectRequest{TimeoutMs: h.timeoutMs, Session: h.session, LastZxidSeen: h.seen, ReadOnly: h.readOnly, Password: make([]byte, 16)}
	if h.session != 0 && !h.wrong {
		password := session.PasswordOf(h.session)
		r.Password = password[:]
	}
	s.push(replica.Event{Kind: replica.EventConnect, Conn: id, Connect: r, Identities: c.identities})
	return c
}

// request sends a request as bytes, as a client does.
func (c *client) request(r *zk.Request) {
	c.xid++
	r.Xid = c.xid
	frame := wire.AppendRequest(nil, r)[wire.PrefixBytes:]
	e := replica.Event{Kind: replica.EventRequest, Conn: c.id, Request: new(zk.Request), Body: frame[wire.HeaderBytes:], Identities: c.identities}
	if wire.DecodeRequest(frame, wire.FrameBytesMax, e.Request) != nil {
		e.Code = zk.ErrMarshalling
	}
	c.asked = append(c.asked, question{r, c.w.watcher.shown, c.w.now.MonoMs})
	if r.Op == zk.OpCloseSession {
		c.w.watcher.leaving[c.session] = true
	}
	c.server.push(e)
}

// lost is the end of the connection from the server's side: the server's process is gone.
func (c *client) lost() {
	c.closed = true
	c.say("disconnected")
}

// leave is the end of the connection from the client's side.
func (c *client) leave() {
	c.closed = true
	c.server.push(replica.Event{Kind: replica.EventDisconnect, Conn: c.id})
}

func (c *client) say(format string, args ...any) {
	c.w.say("client %d: "+format, append([]any{c.id}, args...)...)
}

// told returns the connection that a server tells something.
func (s *server) told(id session.ConnID, what string) *client {
	c := s.w.clients[id]
	if c.closed && c.server == s {
		s.w.t.Errorf("connection %d gets a %s after its end", id, what)
	}
	return c
}

// Connected implements replica.Clients.
func (s *server) Connected(id session.ConnID, r *wire.ConnectResponse) {
	c := s.told(id, "handshake")
	if r.Session == 0 {
		c.say("refused")
		return
	}
	c.session, c.timeoutMs = r.Session, int64(r.TimeoutMs)
	s.w.watcher.lives(s, c, c.beganMs)
	s.w.watcher.tells(s, "the handshake", s.replica.Tree().LastZxid())
	s.w.watcher.sees(c, s.replica.Tree().LastZxid())
	c.say("connected %s timeout=%d", s.w.name(r.Session), r.TimeoutMs)
	if r.Password != session.PasswordOf(r.Session) {
		s.w.t.Error("wrong password in the answer")
	}
}

// Reply implements replica.Clients.
func (s *server) Reply(id session.ConnID, h wire.ReplyHeader, res *zk.Result) {
	c := s.told(id, "reply")
	if len(c.asked) == 0 || c.asked[0].request.Xid != h.Xid {
		s.w.t.Fatalf("R3: connection %d gets %d, waits for %v", id, h.Xid, c.asked)
	}
	q := c.asked[0]
	c.asked = c.asked[1:]
	body := ""
	if h.Code == zk.OK && res != nil {
		body = replica.ResultText(res)
	}
	c.say("%s %s %s%s", q.request.Op, zab.FormatZxid(h.Zxid), h.Code.Error(), body)
	s.w.watcher.tells(s, q.request.Op.String(), h.Zxid)
	s.w.watcher.sees(c, h.Zxid)
	if q.request.Op.IsWrite() && h.Code == zk.OK {
		s.w.watcher.lives(s, c, q.atMs-s.w.opts.Zab.TickMs/2)
	}
	if q.request.Op == zk.OpSync && h.Code == zk.OK && h.Zxid < q.shown {
		s.w.t.Errorf("connection %d: a sync ends at %s, before it somebody saw %s", id, zab.FormatZxid(h.Zxid), zab.FormatZxid(q.shown))
	}
	if q.request.Op == zk.OpCreate && h.Code == zk.OK && isMark(q.request.Path) {
		s.w.watcher.acked[q.request.Path] = h.Zxid
	}
	if q.request.Op == zk.OpGetData {
		c.looks(q.request, h.Code, res)
	}
}

// looks checks that a watch has reported a change before a read shows it (replica-R4).
func (c *client) looks(r *zk.Request, code zk.Code, res *zk.Result) {
	if code != zk.OK {
		delete(c.watched, r.Path)
		return
	}
	at, watched := c.watched[r.Path]
	if watched {
		c.w.watcher.looked++
	}
	if watched && res.Stat.Mzxid > at {
		c.w.t.Errorf("R4: connection %d sees %s of %s, its watch of %s has not told", c.id, zab.FormatZxid(res.Stat.Mzxid), r.Path, zab.FormatZxid(at))
	}
	if r.Watch {
		c.watched[r.Path] = res.Stat.Mzxid
	}
}

// Reached implements replica.Clients.
func (s *server) Reached(id session.ConnID) { s.told(id, "own read").say("reached") }

// Notify implements replica.Clients.
func (s *server) Notify(conns []session.ConnID, e *zk.Event) {
	for _, id := range conns {
		c := s.told(id, "watch event")
		delete(c.watched, e.Path)
		if e.Zxid > 0 {
			s.w.watcher.tells(s, "an event", e.Zxid)
		}
		c.say("event %s %s", e.Type, e.Path)
	}
}

// Notified implements replica.Clients.
func (s *server) Notified() {}

// Close implements replica.Clients.
func (s *server) Close(id session.ConnID) {
	c := s.w.clients[id]
	if c.closed {
		return
	}
	c.closed = true
	c.say("closed")
	s.inbox = append(s.inbox, replica.Event{Kind: replica.EventDisconnect, Conn: id})
}
