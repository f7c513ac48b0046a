package server

import (
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// conn is one connection of a client. Its goroutine owns the reading side and
// answers reads; everything else goes to the loop. While it is idle it has no goroutine.
//
// The order of replies (replica-R3) rests on inFlight: while the loop has requests of
// this connection, every request goes to the loop, after them. When it has
// none, all their replies are in the outbox, and a read may be answered here.
type conn struct {
	server *Server
	id     session.ConnID
	socket net.Conn
	remote netip.AddrPort
	input  input
	out    outbox

	identities    []zk.Identity // of the goroutine; replaced, never changed: others may share them
	identityBytes int64         // of what the client has proved; of the goroutine
	rare          *rare         // of the goroutine; nil for most connections

	sessionID atomic.Int64
	timeoutMs atomic.Int32
	inFlight  atomic.Int32                  // requests that the loop has not answered
	resumed   atomic.Pointer[chan struct{}] // see answers; nil when the goroutine has not waited since it was idle
	sinceMs   int64                         // when it was accepted
	touchedMs atomic.Int64                  // when the loop last learned of it
	owed      owed                          // of the loop: events that it is to be given
	woken     bool                          // of the loop: it is in the list of those to flush
	admitted  bool                          // it has proved what the server asks for; of the goroutine
	refused   bool                          // the client wants another ensemble, or has too many connections; of the goroutine
	expired   bool                          // it had no session in time; of expireHandshakes
	ended     bool                          // the client closed its session: nothing more is read
	idles     bool                          // the last that came was a heartbeat alone
	behind    int32                         // reads that went to the loop since it last had nothing; of the goroutine
	longest   int                           // weightBehind of a write since then; of the goroutine

	begun    uint64 // requests that went to the loop; of the goroutine
	finished uint64 // those that it has answered; of the loop
	done     discounted
	longs    atomic.Pointer[longs] // nil until there was one; the goroutine makes it

	stats   connStats  // guarded by out.mu
	spaces  connSpaces // guarded by out.mu
	replies replySizes // guarded by out.mu
	phase   phase
}

// rare is what few connections have, and only with some settings.
type rare struct {
	client string // the id of its certificate, where that has identities by a map of domains
	mapped *replica.Domains
	sasl   sasl.Server   // the exchange that the client has begun
	owners []zk.Identity // to whom it belongs, where that has a limit
	paces  ownPaces
}

// own returns what few connections have, for a change of it.
func (c *conn) own() *rare {
	if c.rare == nil {
		c.rare = &rare{}
	}
	return c.rare
}

// scratch is what handling a batch of requests needs. It is shared by all
// connections, so that an idle one holds none.
type scratch struct {
	buffer  []byte
	request zk.Request
	answer  replica.Answer
	events  []replica.Event
}

var scratches = sync.Pool{New: func() any { return &scratch{buffer: make([]byte, inputBytes)} }}

// putBack gives a scratch to others.
func (w *scratch) putBack() {
	if len(w.buffer) > inputBytes {
		w.buffer = make([]byte, inputBytes)
	}
	scratches.Put(w)
}

func newConn(s *Server, socket net.Conn) *conn {
	c := &conn{server: s, socket: socket, remote: remoteAddr(socket), sinceMs: s.monoMs()}
	c.identities = auth.Connected(c.remote.Addr().String())
	c.admitted = s.cfg.Auth.Admits(c.identities)
	c.out.conn = c
	c.input.init(c, socket, s.cfg.FrameBytesMax)
	return c
}

// serve runs the connection to its end.
func (c *conn) serve() {
	if !c.prove() || !c.handshake() {
		if c.touchedMs.Load() != 0 { // refused: the loop has answered, and closes the socket
			c.flush()
			c.input.drain()
		}
		c.close()
		return
	}
	c.holdToPace(c.identities)
	c.idle()
}

// serveOn handles requests until the client is idle, which a heartbeat tells, or the end.
func (c *conn) serveOn() {
	c.input.begin(c)
	for !c.ended && c.step() {
		if c.idles {
			c.idle()
			return
		}
	}
	defer c.close()
	switch {
	case c.ended:
		c.awaitLast()
	case !c.out.isEnded(): // it has said what nobody can read, or its end has come
		c.out.end()
		c.flush()
		c.input.drain()
		return
	}
	if c.out.isEnded() {
		c.longs.Load().answered(math.MaxUint64, c.server) // the loop has dropped it: no answers come
	}
	if c.ended || c.out.isEnded() {
		c.input.drain()
	}
}

// awaitLast waits until the loop has answered all, and ends the connection with that.
func (c *conn) awaitLast() {
	for c.inFlight.Load() > 0 {
		if !c.await() {
			return
		}
	}
	c.out.end()
	c.flush()
}

func (c *conn) close() {
	c.begins(0)
	c.leavePaces()
	c.belongNoMore()
	c.shut()
	c.server.inbox.put(replica.Event{Kind: replica.EventDisconnect, Conn: c.id})
}

// Prover is a connection that shakes hands before its first byte, as one of TLS does.
type Prover interface {
	// Prove shakes hands, and returns the name of the certificate that the client has
	// proved to hold, as Java writes it; "" for none.
	Prove() (string, error)
}

// prove shakes hands where the port asks for it. The time before a session bounds it.
func (c *conn) prove() bool {
	p, is := c.socket.(Prover)
	if !is {
		c.noteUncertified()
		return true
	}
	s := c.server
	if out := s.handshakes.enter(c, s.cfg.Throttle.HandshakesMax); out != nil {
		s.refused(refusedHandshake, out.remote)
		out.shut()
		if out == c {
			return false
		}
	}
	defer s.handshakes.leave(c)
	name, err := p.Prove()
	if err != nil {
		c.server.refusedHandshake(c.remote, err)
		return false
	}
	switch {
	case name == "":
		c.noteUncertified()
	case s.cfg.Auth.Groups.On:
		c.own().client = name
		return c.regroup()
	default:
		c.identities = append(c.identities, c.server.reader.Auth.Certified(name)...)
		c.identityBytes = int64(identityBytes(c.identities))
		c.admitted = c.server.cfg.Auth.Admits(c.identities)
	}
	return c.belong(c.identities)
}

// noteDropped counts a connection that has ended before its session was closed, and not by
// this server.
func (c *conn) noteDropped() {
	if !c.out.isEnded() && c.server.done.Err() == nil {
		c.server.meters.dropped.Add(1)
	}
}

// noteUncertified counts a connection whose client has proved no certificate.
func (c *conn) noteUncertified() {
	if c.remote.Addr().IsLoopback() {
		c.server.meters.plainLocal.Add(1)
	} else {
		c.server.meters.plainRemote.Add(1)
	}
}

// refusedHandshake counts a handshake that has failed.
func (s *Server) refusedHandshake(client netip.AddrPort, err error) {
	s.stats.authFailed.Add(1)
	if count, tell := s.stats.handshakes.Note(s.monoMs()); tell {
		s.cfg.Logger.Warn("a client's handshake failed", "client", client, "error", err, "failed", count)
	}
}

// handshake reads the first frame, or a four-letter word, and waits for the
// loop's answer. The budget before a session is small.
func (c *conn) handshake() bool {
	payload, err := c.input.first()
	if err != nil {
		return false
	}
	if name, ok := c.fourLetterWord(); ok {
		c.answerCommand(name)
		return false
	}
	req, err := wire.DecodeConnectRequest(payload)
	if err != nil || c.server.done.Err() != nil || !c.mayConnect(req.Session) {
		return false
	}
	c.touchedMs.Store(c.server.monoMs())
	c.received()
	c.server.claim(0)
	c.begin(1)
	c.server.stats.connects.Add(1)
	c.server.noteToken()
	if req.Session != 0 {
		c.server.meters.resumed.Add(1)
	}
	c.server.inbox.put(replica.Event{Kind: replica.EventConnect, Conn: c.id, Connect: &req, Identities: c.identities})
	for c.inFlight.Load() > 0 {
		if !c.await() {
			return false
		}
	}
	return c.sessionID.Load() != 0
}

// await waits until the loop has answered something, or the server ends.
func (c *conn) await() bool {
	select {
	case <-c.answers():
		return !c.out.isEnded()
	case <-c.server.done.Done():
		return false
	}
}

// received counts what comes before the first request: a handshake, a four-letter word.
func (c *conn) received() {
	c.server.stats.received.Add(1)
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.stats.received++
}

// begin counts requests that go to the loop, and have claimed their places.
func (c *conn) begin(n int) {
	c.begun += uint64(n)
	c.inFlight.Add(int32(n))
}

// finish counts one that the loop has answered, and that took so many bytes. The loop calls
// it, after the reply is in the outbox, and discount before it wakes the connection.
func (c *conn) finish(bytes int64) {
	c.finished++
	c.done.count++
	c.done.bytes += bytes
}

// discount takes what the loop has answered off what is on its way: at the end of a step,
// for all at once, since the goroutines of connections count there as well. What those requests
// have held of the budget is released after that: never are more on their way than it has space for.
func (c *conn) discount() {
	a := &c.done
	if a.count == 0 {
		return
	}
	c.inFlight.Add(-a.count)
	c.server.inFlight.Add(-int64(a.count))
	c.server.requestBytes.Add(-a.bytes)
	c.longs.Load().answered(c.finished, c.server)
	*a = discounted{}
}

// discounted are requests of a connection that the loop has answered in this step, and what
// they took in memory. Of the loop.
type discounted struct {
	count int32
	bytes int64
}

// gone forgets a connection whose goroutine has ended. The loop calls it, so
// that what is left on its way is counted off once.
func (s *Server) gone(c *conn) {
	c.discount()
	s.inFlight.Add(-int64(c.inFlight.Swap(0)))
	c.longs.Load().answered(math.MaxUint64, s)
	c.out.remove()
	s.conns.ending.Lock()
	defer s.conns.ending.Unlock()
	s.conns.remove(c)
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	s.stats.sentGone.Add(c.stats.sent)
	s.requestBytes.Add(-c.stats.forget())
	c.handOver()
}

// answers has a token when the loop has answered something, and has one at first: what came
// before the goroutine waits is not told here, so that it has to look for it.
func (c *conn) answers() <-chan struct{} {
	if has := c.resumed.Load(); has != nil {
		return *has
	}
	first := make(chan struct{}, 1)
	first <- struct{}{}
	c.resumed.Store(&first)
	return first
}

// resume wakes the goroutine if it waits for the loop.
func (c *conn) resume() {
	has := c.resumed.Load()
	if has == nil {
		return
	}
	select {
	case *has <- struct{}{}:
	default:
	}
}

func (o *outbox) isEnded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended || o.over
}

// inFlightBytesMax is how much memory may be on its way: as requests, with their
// identities, and as records for the disk. InFlightMax is how many requests. Beyond one of
// them a connection has no more than its share with the loop, so that it waits behind no
// other's thousands.
const inFlightBytesMax = 16 << 20

// claim counts a request that is to go to the loop, and what it takes in memory.
func (s *Server) claim(bytes int64) {
	s.inFlight.Add(1)
	s.requestBytes.Add(bytes)
}

// share is how many requests a connection may have with the loop now. Beyond the limit of
// requests all shares together are as many again, or one of each connection; beyond that of
// memory it is one.
func (s *Server) share() int {
	switch {
	case s.requestBytes.Load()+s.inFlightBytes.Load() > inFlightBytesMax:
		return 1
	case s.inFlight.Load() > int64(s.cfg.InFlightMax):
		return max(1, s.cfg.InFlightMax/max(1, int(s.conns.count.Load())))
	}
	return math.MaxInt
}

// mayRead waits until the loop may have another request of the connection; false if it has
// ended.
func (c *conn) mayRead() bool {
	s := c.server
	if !c.uncrowded() {
		return false
	}
	for int(c.inFlight.Load()) > (s.share()-1)/2 { // not one by one
		if !c.awaitAnswer() {
			return false
		}
	}
	return true
}

// awaitAnswer is await while the loop has requests of this connection, of which nothing
// is read meanwhile. That its client says nothing is the doing of this server, and ends
// no session.
func (c *conn) awaitAnswer() bool {
	s := c.server
	for {
		c.touch(s.monoMs())
		again := s.cfg.Clock.Timer(clock.FromMillis(s.monoMs() + c.touchEveryMs()))
		select {
		case <-c.answers():
			again.Stop()
			return !c.out.isEnded()
		case <-again.C():
		case <-s.done.Done():
			again.Stop()
			return false
		}
	}
}

// touch gives the loop a heartbeat of the client now and then.
func (c *conn) touch(nowMs int64) {
	last := c.touchedMs.Load()
	if nowMs-last >= c.touchEveryMs() && c.touchedMs.CompareAndSwap(last, nowMs) {
		c.server.inbox.put(replica.Event{Kind: replica.EventTouch, Conn: c.id})
	}
}

// touchEveryMs is how often the loop wants to learn of a client's heartbeats.
func (c *conn) touchEveryMs() int64 {
	return replica.TouchIntervalMs(c.server.cfg.TickTime.Milliseconds())
}

// uncrowded waits until the outbox is not crowded.
func (c *conn) uncrowded() bool {
	for c.out.crowded() {
		if !c.await() {
			return false
		}
	}
	return true
}

// step reads what has come and handles every whole request in it.
func (c *conn) step() bool {
	if !c.mayRead() {
		return false
	}
	// Waiting for input holds no scratch: most connections are idle.
	w, err := c.input.read(c.server.portionMax())
	if err != nil {
		c.noteDropped()
		return false
	}
	return c.handle(w)
}

// portionMax is how many bytes a connection reads at once: the portions of all together are
// bounded, too, for a connection keeps its own while it waits.
func (s *Server) portionMax() int {
	return max(portionMin, min(inputBytes, inFlightBytesMax/max(1, int(s.conns.count.Load()))))
}

const portionMin = 4 << 10
