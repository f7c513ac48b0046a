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

// conn is one connection of a client. Its goroutine owns the reading side and answers reads;
// everything else goes to the loop. While it is idle it has no goroutine.
//
// The order of replies (replica-R3) depends on inFlight. While the loop has requests of this
// connection, every request goes to the loop, after them. When it has none, all their replies
// are in the outbox, and a read may be answered here.
type conn struct {
	server *Server
	id     session.ConnID
	socket net.Conn
	remote netip.AddrPort
	input  input
	out    outbox

	identities    []zk.Identity // of the goroutine; replaced, never changed, because others may share them
	identityBytes int64         // size of what the client has proved; of the goroutine
	rare          *rare         // of the goroutine; nil for most connections

	sessionID atomic.Int64
	timeoutMs atomic.Int32
	inFlight  atomic.Int32                  // requests that the loop has not answered
	resumed   atomic.Pointer[chan struct{}] // see answers; nil if the goroutine has not waited since the connection was idle
	sinceMs   int64                         // when it was accepted
	touchedMs atomic.Int64                  // when the loop was last told that the client is alive
	owed      owed                          // of the loop: events that it has to be given
	woken     bool                          // of the loop: it is in the list of connections to flush
	admitted  bool                          // it has proved what the server requires; of the goroutine
	refused   bool                          // the client names another ensemble, or has too many connections; of the goroutine
	expired   bool                          // it did not have a session in time; of expireHandshakes
	ended     bool                          // the client closed its session: nothing more is read
	idles     bool                          // its last batch was only a heartbeat
	behind    int32                         // reads that went to the loop since it last had no request of this connection; of the goroutine
	longest   int                           // largest weightBehind of a write since then; of the goroutine

	begun    uint64 // requests given to the loop; of the goroutine
	finished uint64 // requests that the loop has answered; of the loop
	done     discounted
	longs    atomic.Pointer[longs] // nil until there is one; created by the goroutine

	stats   connStats  // guarded by out.mu
	spaces  connSpaces // guarded by out.mu
	replies replySizes // guarded by out.mu
	phase   phase
}

// rare is what only few connections have, and only with some settings.
type rare struct {
	client string // the name in its certificate, if a map of domains gives it identities
	mapped *replica.Domains
	sasl   sasl.Server   // the exchange that the client has begun
	owners []zk.Identity // the identities to which it belongs, if they have a limit
	paces  ownPaces
}

// own returns the rare part of a connection, for a change.
func (c *conn) own() *rare {
	if c.rare == nil {
		c.rare = &rare{}
	}
	return c.rare
}

// scratch is the memory needed to handle a batch of requests. All connections share it, so an
// idle one holds none.
type scratch struct {
	buffer  []byte
	request zk.Request
	answer  replica.Answer
	events  []replica.Event
}

var scratches = sync.Pool{New: func() any { return &scratch{buffer: make([]byte, inputBytes)} }}

// putBack makes a scratch available to others.
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

// serveOn handles requests until the connection ends, or until the client is idle, which a
// batch with only a heartbeat shows.
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
	case !c.out.isEnded(): // the client has sent something invalid, or has closed the connection
		c.out.end()
		c.flush()
		c.input.drain()
		return
	}
	if c.out.isEnded() {
		c.longs.Load().answered(math.MaxUint64, c.server) // the loop has dropped it, so no answers come
	}
	if c.ended || c.out.isEnded() {
		c.input.drain()
	}
}

// awaitLast waits until the loop has answered everything, and then ends the connection.
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

// Prover is a connection with a handshake before its first byte, such as TLS.
type Prover interface {
	// Prove performs the handshake, and returns the name of the certificate that the client has
	// proved to hold, as Java writes it; "" for none.
	Prove() (string, error)
}

// prove performs the handshake if the port requires one. The time limit for a connection
// without a session bounds it.
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

// noteDropped counts a connection that ended before its session was closed, unless this server
// ended it.
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

// refusedHandshake counts a failed handshake.
func (s *Server) refusedHandshake(client netip.AddrPort, err error) {
	s.stats.authFailed.Add(1)
	if count, tell := s.stats.handshakes.Note(s.monoMs()); tell {
		s.cfg.Logger.Warn("a client's handshake failed", "client", client, "error", err, "failed", count)
	}
}

// handshake reads the first frame, or a four-letter word, and waits for the loop's answer.
// Little memory is available to a connection without a session.
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

// received counts what comes before the first request: a handshake, or a four-letter word.
func (c *conn) received() {
	c.server.stats.received.Add(1)
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.stats.received++
}

// told counts the answer to a four-letter word as a packet, as Apache's servers do: who polls a server by them finds
// as many packets sent as received.
func (c *conn) told() {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.stats.sent++
}

// begin counts requests that go to the loop and have been claimed.
func (c *conn) begin(n int) {
	c.begun += uint64(n)
	c.inFlight.Add(int32(n))
}

// finish counts a request that the loop has answered, and its memory. The loop calls it after
// the reply is in the outbox, and discount before it wakes the connection.
func (c *conn) finish(bytes int64) {
	c.finished++
	c.done.count++
	c.done.bytes += bytes
}

// discount subtracts what the loop has answered from what is on its way: for all at once at the
// end of a step, because the goroutines of connections use the same counters. Only then it
// releases what those requests have held of the budget, so that never more of them are on their
// way than the budget allows.
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

// discounted are the requests of a connection that the loop has answered in this step, and
// their memory. Of the loop.
type discounted struct {
	count int32
	bytes int64
}

// gone forgets a connection whose goroutine has ended. The loop calls it, so that what the
// connection still has on its way is subtracted exactly once.
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

// answers has a token when the loop has answered something. It has one at first: the token for
// what came before the goroutine waits is missing, so the goroutine has to look for itself.
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

// inFlightBytesMax is how much memory may be on its way: as requests with their identities, and
// as records for the disk. InFlightMax is how many requests may be. Beyond one of these limits
// a connection may have only its share with the loop, so that no connection waits for thousands
// of requests of another.
const inFlightBytesMax = 16 << 20

// claim counts a request that goes to the loop, and its memory.
func (s *Server) claim(bytes int64) {
	s.inFlight.Add(1)
	s.requestBytes.Add(bytes)
}

// share returns how many requests a connection may have with the loop now. Beyond the limit of
// requests the shares add up to that limit again, or to one for each connection. Beyond the
// limit of memory the share is one.
func (s *Server) share() int {
	switch {
	case s.requestBytes.Load()+s.inFlightBytes.Load() > inFlightBytesMax:
		return 1
	case s.inFlight.Load() > int64(s.cfg.InFlightMax):
		return max(1, s.cfg.InFlightMax/max(1, int(s.conns.count.Load())))
	}
	return math.MaxInt
}

// mayRead waits until the loop may be given another request of the connection; false if the
// connection has ended.
func (c *conn) mayRead() bool {
	s := c.server
	if !c.uncrowded() {
		return false
	}
	for int(c.inFlight.Load()) > (s.share()-1)/2 { // in larger batches, not one by one
		if !c.awaitAnswer() {
			return false
		}
	}
	return true
}

// awaitAnswer is await while the loop has requests of this connection, from which nothing is
// read meanwhile. This server is the reason that nothing is received from the client, so the
// client counts as alive and its session does not end.
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

// touch passes the client's heartbeat to the loop from time to time.
func (c *conn) touch(nowMs int64) {
	last := c.touchedMs.Load()
	if nowMs-last >= c.touchEveryMs() && c.touchedMs.CompareAndSwap(last, nowMs) {
		c.server.inbox.put(replica.Event{Kind: replica.EventTouch, Conn: c.id})
	}
}

// touchEveryMs returns how often the loop must be told of a client's heartbeats.
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

// step reads the input that is there and handles every whole request in it.
func (c *conn) step() bool {
	if !c.mayRead() {
		return false
	}
	// While it waits for input it holds no scratch: most connections are idle.
	w, err := c.input.read(c.server.portionMax())
	if err != nil {
		c.noteDropped()
		return false
	}
	return c.handle(w)
}

// portionMax returns how many bytes a connection reads at once. The portions of all connections
// together are bounded too, because a connection keeps its portion while it waits.
func (s *Server) portionMax() int {
	return max(portionMin, min(inputBytes, inFlightBytesMax/max(1, int(s.conns.count.Load()))))
}

const portionMin = 4 << 10
