package server

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/zk"
)

// RateLimits bound what clients may ask of this server per second. A request beyond a limit
// waits, and so does everything that its client has sent after it. A request that would have to
// wait for longer than paceWaitMax, or a quarter of its session timeout, is answered with
// zk.ErrThrottledOp and not carried out. What keeps a session alive, proves an identity or sets
// watches again is never refused, and does not count. The zero value bounds nothing.
type RateLimits struct {
	Session  RateLimit // conclave.session…PerSecond: per connection
	Address  RateLimit // conclave.address…PerSecond: for all connections from one host
	Identity RateLimit // conclave.identity…PerSecond: for all connections that have proved one identity; ip does not count
}

// RateLimit is a limit of requests and of their bytes per second; 0 is no limit. After a pause
// a second's worth may come at once.
type RateLimit struct{ Requests, Bytes int64 }

func (l RateLimit) on() bool { return l.Requests > 0 || l.Bytes > 0 }

// paceWaitMax is the maximum wait of a request.
const paceWaitMax = time.Second

// pace enforces one RateLimit for all that share it. Any goroutine may use it.
type pace struct {
	limit    RateLimit
	requests bucket
	bytes    bucket
}

// bucket counts requests as the time that they take at the limit (GCRA).
type bucket struct{ spentNs atomic.Int64 } // the instant up to which it is used

// bucketNs is how much may be asked for at once.
const bucketNs = int64(time.Second)

// wait returns how long the next request must wait.
func (b *bucket) wait(nowNs int64) int64 { return b.spentNs.Load() - nowNs }

// spend counts a request.
func (b *bucket) spend(nowNs, perSecond, cost int64) {
	for {
		spent := b.spentNs.Load()
		next := max(spent, nowNs-bucketNs) + int64(float64(cost)/float64(perSecond)*float64(time.Second))
		if b.spentNs.CompareAndSwap(spent, next) {
			return
		}
	}
}

func (p *pace) wait(nowNs int64) (ns int64) {
	if p.limit.Requests > 0 {
		ns = p.requests.wait(nowNs)
	}
	if p.limit.Bytes > 0 {
		ns = max(ns, p.bytes.wait(nowNs))
	}
	return ns
}

func (p *pace) spend(nowNs, bytes int64) {
	if p.limit.Requests > 0 {
		p.requests.spend(nowNs, p.limit.Requests, 1)
	}
	if p.limit.Bytes > 0 {
		p.bytes.spend(nowNs, p.limit.Bytes, bytes)
	}
}

// spentNs returns the instant up to which the limits are used.
func (p *pace) spentNs() int64 { return max(p.requests.spentNs.Load(), p.bytes.spentNs.Load()) }

// owes reports whether the bucket is not completely full again.
func (p *pace) owes(nowNs int64) bool { return p.spentNs() > nowNs-bucketNs }

// paces are the paces that connections share. What one still owes when its last connection has
// gone counts for the next connection.
type paces struct {
	mu   sync.Mutex
	all  map[zk.Identity]*sharedPace // a host is an identity of the scheme ip
	kept map[zk.Identity]*sharedPace // paces without a connection, up to pacesKept
}

type sharedPace struct {
	pace
	conns int
}

// pacesKept is how many paces are kept for clients that may come back. Beyond it the one that
// owes least is forgotten.
const pacesKept = 1024

func (p *paces) enter(who zk.Identity, limit RateLimit) *pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	shared := p.all[who]
	if shared == nil {
		if shared = p.kept[who]; shared == nil {
			shared = &sharedPace{pace: pace{limit: limit}}
		}
		delete(p.kept, who)
		if p.all == nil {
			p.all, p.kept = make(map[zk.Identity]*sharedPace), make(map[zk.Identity]*sharedPace)
		}
		p.all[who] = shared
	}
	shared.conns++
	return &shared.pace
}

func (p *paces) leave(who zk.Identity, nowNs int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	shared := p.all[who]
	if shared.conns--; shared.conns > 0 {
		return
	}
	delete(p.all, who)
	if shared.owes(nowNs) {
		p.kept[who] = shared
	}
	if len(p.kept) > pacesKept {
		p.forget(nowNs)
	}
}

// forget removes the paces that owe nothing any more, or the one that owes least.
func (p *paces) forget(nowNs int64) {
	var least zk.Identity
	leastNs := int64(math.MaxInt64)
	for id, shared := range p.kept {
		if !shared.owes(nowNs) {
			delete(p.kept, id)
		} else if ns := shared.spentNs(); ns < leastNs {
			least, leastNs = id, ns
		}
	}
	if len(p.kept) > pacesKept {
		delete(p.kept, least)
	}
}

// ownPaces are the paces of one connection. Its goroutine uses it.
type ownPaces struct {
	session pace
	shared  []zk.Identity // the identities whose paces are shared
	all     []*pace
}

// holdToPace adds the paces of new identities of the connection.
func (c *conn) holdToPace(identities []zk.Identity) {
	limits := &c.server.cfg.Throttle.Rates
	if *limits == (RateLimits{}) {
		return
	}
	own := &c.own().paces
	if limits.Session.on() && own.session.limit != limits.Session {
		own.session.limit = limits.Session
		own.all = append(own.all, &own.session)
	}
	for _, who := range identities {
		limit := limits.Identity
		if who.Scheme == "ip" {
			limit, who.ID = limits.Address, c.address().String()
		}
		if limit.on() {
			own.shared = append(own.shared, who)
			own.all = append(own.all, c.server.paces.enter(who, limit))
		}
	}
}

// holdToPaces replaces the paces of a connection whose identities have changed.
func (c *conn) holdToPaces(identities []zk.Identity) {
	own := &c.own().paces
	before := own.shared
	own.shared, own.all = nil, nil
	if own.session.limit.on() {
		own.all = append(own.all, &own.session)
	}
	c.holdToPace(identities)
	for _, who := range before { // last, so that a pace that nobody else shares does not start again
		c.server.paces.leave(who, int64(c.server.cfg.Clock.Now()))
	}
}

// leavePaces releases the paces at the end of the connection.
func (c *conn) leavePaces() {
	if c.rare == nil {
		return
	}
	own := &c.rare.paces
	for _, who := range own.shared {
		c.server.paces.leave(who, int64(c.server.cfg.Clock.Now()))
	}
	own.shared, own.all = nil, nil
}

// paced reports whether an operation counts.
func paced(op zk.Op) bool {
	switch op {
	case zk.OpPing, zk.OpCloseSession, zk.OpAuth, zk.OpSASL, zk.OpSetWatches, zk.OpSetWatches2:
		return false
	}
	return true
}

// keepPace waits until a request is within all limits.
func (h *handling) keepPace(op zk.Op, bytes int) turned {
	c, s := h.conn, h.conn.server
	if c.rare == nil || len(c.rare.paces.all) == 0 || !paced(op) {
		return turnComes
	}
	own := c.rare.paces.all
	now, waitNs := s.cfg.Clock.Now(), int64(0)
	for _, p := range own {
		waitNs = max(waitNs, p.wait(int64(now)))
	}
	most := paceWaitMax
	if timeout := time.Duration(c.timeoutMs.Load()) * time.Millisecond; timeout > 0 {
		most = min(most, timeout/4)
	}
	if waitNs > int64(most) {
		s.refused(refusedPace, c.remote)
		return turnRefused
	}
	for _, p := range own {
		p.spend(int64(now), int64(bytes))
	}
	if waitNs > 0 && !h.pause(now.Add(time.Duration(waitNs))) {
		return turnOver
	}
	return turnComes
}

// pause waits until a time, while the client counts as alive; false if the connection ends.
func (h *handling) pause(until clock.Instant) bool {
	s := h.conn.server
	h.unlock()
	s.relieve()
	h.conn.flush()
	s.stats.waits.Add(1)
	for {
		now := s.cfg.Clock.Now()
		h.nowMs = now.Millis()
		h.submit()
		if now >= until {
			h.look()
			return true
		}
		again := s.cfg.Clock.Timer(min(until, clock.FromMillis(h.nowMs+replica.TouchIntervalMs(s.cfg.TickTime.Milliseconds()))))
		select {
		case <-again.C():
		case <-h.conn.answers():
			again.Stop()
			if h.conn.out.isEnded() {
				h.conn.resume()
				return false
			}
		case <-s.done.Done():
			again.Stop()
			return false
		}
	}
}
