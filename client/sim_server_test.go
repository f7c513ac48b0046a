package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// simEnsemble is a set of servers with one log. What they do to clients is in
// sim_fault_test.go. What they apply is always right, so clients are judged by that
// log.
type simEnsemble struct {
	mu       sync.Mutex // guards everything that is reached from here, except sockets
	rng      *rand.Rand
	changed  chan struct{} // closed when a server changes what it does
	quiet    bool          // no more faults
	servers  []*simServer
	zxid     zk.Zxid
	log      []simTxn
	children []simTxn // the changes below /w
	nodes    map[string]*simNode
	sessions map[zk.SessionID]*simSession
	number   zk.SessionID
	expired  func(zk.SessionID)

	watchLost bool // a mutant
	group     sync.WaitGroup
}

// simTxn is one change of one znode.
type simTxn struct {
	zxid zk.Zxid
	kind zk.EventType // created, deleted or changed
	path string
	data string
}

type simNode struct {
	data  string
	stat  zk.Stat
	names map[string]bool
}

type simSession struct {
	password  zk.Password
	timeoutMs int32
	touched   time.Time
	conn      *simConn // the connection that it is attached to
}

// simServer is one server, which sets how all of its connections behave.
type simServer struct {
	e        *simEnsemble
	address  string
	down     bool // refuses connections
	hanging  bool // lets nobody connect, and gives no answer
	mute     bool // accepts and says nothing
	deaf     bool // reads nothing
	silent   bool // writes nothing
	isolated bool // answers only pings and reads, which prove nothing
	conns    map[*simConn]bool
}

// simConn is a connection as its server sees it.
type simConn struct {
	s        *simServer
	socket   *simSocket
	session  zk.SessionID
	out      [][]byte
	ended    bool
	data     map[string]bool // one-shot watches
	children map[string]bool
	lasting  map[string]zk.WatchMode
}

func newSimEnsemble(rng *rand.Rand, servers int) *simEnsemble {
	e := &simEnsemble{rng: rng, changed: make(chan struct{}), nodes: map[string]*simNode{},
		sessions: map[zk.SessionID]*simSession{}}
	for i := range servers {
		e.servers = append(e.servers, &simServer{e: e, address: fmt.Sprintf("s%d:1", i+1), conns: map[*simConn]bool{}})
	}
	e.nodes["/"] = &simNode{names: map[string]bool{}}
	e.nodes["/w"] = &simNode{names: map[string]bool{}}
	for i := range simRegisters {
		e.nodes[simRegister(i)] = &simNode{names: map[string]bool{}}
	}
	return e
}

const simRegisters = 3

func simRegister(i int) string { return fmt.Sprintf("/r%d", i) }

// tell wakes everybody who waits for a server. The mutex is held.
func (e *simEnsemble) tell() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// await waits until the condition holds, which is checked with the mutex held.
func (e *simEnsemble) await(condition func() bool) {
	for {
		e.mu.Lock()
		met, changed := condition(), e.changed
		e.mu.Unlock()
		if met {
			return
		}
		<-changed
	}
}

var errSimRefused = errors.New("connection refused")

// dial opens a connection to a server, as Options.Dialer does.
func (e *simEnsemble) dial(ctx context.Context, address string, delayMs int) (net.Conn, error) {
	e.mu.Lock()
	s := e.servers[slices.IndexFunc(e.servers, func(s *simServer) bool { return s.address == address })]
	near, far := simConnect(e.rng, delayMs)
	pause := time.Duration(e.rng.IntN(delayMs+1)) * time.Millisecond
	e.mu.Unlock()
	time.Sleep(pause)
	e.mu.Lock()
	down, hanging := s.down, s.hanging
	conn := &simConn{s: s, socket: far, data: map[string]bool{}, children: map[string]bool{}, lasting: map[string]zk.WatchMode{}}
	if !down && !hanging {
		s.conns[conn] = true
		e.group.Go(conn.serve)
		e.group.Go(conn.write)
	}
	e.mu.Unlock()
	switch {
	case hanging:
		<-ctx.Done()
		return nil, ctx.Err()
	case down:
		return nil, errSimRefused
	}
	return near, nil
}

// serve reads requests and answers them, one after the other.
func (c *simConn) serve() {
	defer c.end()
	hello, err := c.frame()
	if err != nil || !c.greet(hello) {
		return
	}
	for {
		payload, err := c.frame()
		var r zk.Request
		if err != nil || wire.DecodeRequest(payload, len(payload), &r) != nil {
			return
		}
		isolated := false
		c.s.e.await(func() bool {
			isolated = c.s.isolated
			return c.ended || !c.s.deaf && !(isolated && (r.Op.IsWrite() || r.Op == zk.OpSync))
		})
		if !c.take(&r, isolated) {
			return
		}
	}
}

// end ends the connection on the server's side.
func (c *simConn) end() {
	e := c.s.e
	e.mu.Lock()
	c.ended = true
	delete(c.s.conns, c)
	e.tell()
	e.mu.Unlock()
}

// frame reads one frame. While the server reads nothing, frame reads nothing either.
func (c *simConn) frame() ([]byte, error) {
	c.s.e.await(func() bool { return c.ended || !c.s.deaf })
	var prefix [4]byte
	if _, err := io.ReadFull(c.socket, prefix[:]); err != nil {
		return nil, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	_, err := io.ReadFull(c.socket, payload)
	return payload, err
}

// greet attaches an existing session, or starts a new one.
func (c *simConn) greet(payload []byte) bool {
	hello, err := wire.DecodeConnectRequest(payload)
	if err != nil {
		return false
	}
	e := c.s.e
	e.await(func() bool { return c.ended || !c.s.mute && !c.s.isolated })
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.ended || hello.LastZxidSeen > e.zxid {
		return false
	}
	id, session := hello.Session, e.sessions[hello.Session]
	switch {
	case id == 0:
		e.number++
		id = e.number
		session = &simSession{timeoutMs: hello.TimeoutMs}
		session.password[0], session.password[1] = byte(id), byte(id>>8)
		e.sessions[id] = session
	case session == nil || string(session.password[:]) != string(hello.Password):
		c.put(wire.AppendConnectResponse(nil, &wire.ConnectResponse{HasReadOnly: true}))
		return false
	}
	if session.conn != nil {
		session.conn.ended = true // the session has moved
	}
	session.conn, session.touched, c.session = c, time.Now(), id
	c.put(wire.AppendConnectResponse(nil, &wire.ConnectResponse{TimeoutMs: session.timeoutMs, Session: id,
		Password: session.password, HasReadOnly: true}))
	return true
}

// put queues a frame. The mutex is held.
func (c *simConn) put(frame []byte) {
	c.out = append(c.out, frame)
	c.s.e.tell()
}

// write sends what is queued, with the faults that sim_fault_test.go describes.
func (c *simConn) write() {
	defer func() { _ = c.socket.Close() }()
	e := c.s.e
	for {
		var frames [][]byte
		ended := false
		e.await(func() bool {
			ended = c.ended
			if ended || !c.s.silent {
				frames, c.out = c.out, nil
			}
			return ended || len(frames) > 0
		})
		e.mu.Lock()
		bytes, broken := e.spoil(frames)
		e.mu.Unlock()
		if _, err := c.socket.Write(bytes); err != nil || broken {
			c.socket.reset()
			c.end()
			return
		}
		if ended {
			return
		}
	}
}

// take carries out one request. It reports whether the connection goes on.
func (c *simConn) take(r *zk.Request, isolated bool) bool {
	e := c.s.e
	e.mu.Lock()
	defer e.mu.Unlock()
	session := e.sessions[c.session]
	if c.ended || session == nil || session.conn != c {
		return false
	}
	if !isolated {
		session.touched = time.Now()
	}
	switch {
	case r.Op == zk.OpSetWatches || r.Op == zk.OpSetWatches2:
		c.rearm(r.SetWatches)
	case r.Op == zk.OpCloseSession:
		e.closeSession(c.session)
	}
	result := zk.Result{Op: r.Op, Path: r.Path}
	code := zk.OK
	switch {
	case r.Op == zk.OpMulti:
		result.Sub = e.multi(c.session, r.Ops)
	case r.Op.IsWrite() && r.Op != zk.OpCloseSession:
		if code = e.check(r); code == zk.OK {
			e.zxid++
			e.apply(c.session, r, &result)
		}
	default:
		code = c.look(r, &result)
	}
	c.put(wire.AppendReply(nil, wire.ReplyHeader{Xid: r.Xid, Zxid: e.zxid, Code: code}, &result))
	return r.Op != zk.OpCloseSession
}
