package server

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/watch"
	"github.com/conclave-project/conclave/zk"
)

// ThrottleConfig has ZooKeeper's throttles. In the zero value none is on.
type ThrottleConfig struct {
	Conns         ConnThrottle
	HandshakesMax int // netty.server.outstandingHandshake.limit: TLS handshakes at one time; 0 is no limit

	RequestsMax  int           // request_throttle_max_requests: requests with the loop at one time; 0 is no limit
	WaitMax      time.Duration // throttled_op_wait_time: a request that waits longer is answered with zk.ErrThrottledOp; 0 is no limit
	KeepStale    bool          // request_throttle_drop_stale=false: stale requests are carried out, too
	KeepGone     bool          // request_stale_connection_check=false: a request whose client is gone is not stale
	SessionStale bool          // request_stale_latency_check: a request that has waited longer than its session timeout is stale

	LargeBytes    int   // largeRequestThreshold: size from which a request is large, in bytes; 0 is never
	LargeBytesMax int64 // largeRequestMaxBytes: for all large requests together

	Rates RateLimits

	// IdentityConnsMax is how many connections one identity may have that clients have proved
	// (conclave.identityConnectionsMax); 0 is no limit.
	IdentityConnsMax int
	Watches          watch.Limits // Refused is set by the server
}

// ConnThrottle bounds how fast clients may connect: each takes tokens, which come back with
// time. Once all tokens have been in use for a while, a random part of the clients is refused,
// so that a herd of clients spreads over time (BLUE).
type ConnThrottle struct {
	Tokens    int           // connection_throttle_tokens: maximum number; 0 is no limit
	FillTime  time.Duration // connection_throttle_fill_time
	FillCount int           // connection_throttle_fill_count: tokens that come back in each FillTime

	FreezeTime    time.Duration // connection_throttle_freeze_time: between two changes of the chance; below 0 nobody is refused at random
	DropIncrease  float64       // connection_throttle_drop_increase: increase of the chance when no token is left
	DropDecrease  float64       // connection_throttle_drop_decrease: decrease when few are in use
	DecreaseRatio float64       // connection_throttle_decrease_ratio: the part of all tokens that counts as few

	Weights     bool // connection_throttle_weight_enabled: each kind of session takes the following numbers, otherwise each takes one
	GlobalTakes int  // connection_throttle_global_session_weight; the unit of Tokens and FillCount
	RenewTakes  int  // connection_throttle_renew_session_weight
	LocalTakes  int  // connection_throttle_local_session_weight
}

// defaultThrottles returns ZooKeeper's defaults.
func defaultThrottles() ThrottleConfig {
	return ThrottleConfig{
		LargeBytesMax: 100 << 20,
		Conns: ConnThrottle{
			FillTime: time.Millisecond, FillCount: 1, FreezeTime: -1, DropIncrease: 0.02, DropDecrease: 0.002,
			GlobalTakes: 3, RenewTakes: 2, LocalTakes: 1,
		},
	}
}

// connTokens is the state of a ConnThrottle.
type connTokens struct {
	cfg  ConnThrottle
	most int64 // tokens, and how many come back: multiplied by weight
	fill int64

	mu       sync.Mutex
	left     int64
	filledMs int64 // when tokens last came back
	chance   float64
	frozenMs int64 // when the chance last changed
}

func (t *connTokens) init(cfg ConnThrottle, nowMs int64) {
	cfg.GlobalTakes, cfg.RenewTakes = max(cfg.GlobalTakes, cfg.LocalTakes), max(cfg.RenewTakes, cfg.LocalTakes)
	each := int64(1)
	if cfg.Weights {
		each = int64(max(1, cfg.GlobalTakes))
	}
	t.cfg, t.most, t.fill = cfg, each*int64(cfg.Tokens), each*int64(cfg.FillCount)
	t.left, t.filledMs, t.frozenMs = t.most, nowMs, nowMs
}

// costOf returns how many tokens a client takes.
func (t *connTokens) costOf(session zk.SessionID, localSessions bool) int64 {
	switch {
	case !t.cfg.Weights:
		return 1
	case session != 0:
		return int64(t.cfg.RenewTakes)
	case localSessions:
		return int64(t.cfg.LocalTakes)
	}
	return int64(t.cfg.GlobalTakes)
}

// take reports whether a client may connect. dice is at least 0 and less than 1.
func (t *connTokens) take(nowMs, cost int64, dice float64) bool {
	if t.most <= 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	every := max(1, t.cfg.FillTime.Milliseconds())
	if passed := nowMs - t.filledMs; passed >= every {
		switch rounds := passed / every; {
		case t.fill <= 0:
		case rounds > (t.most-t.left)/t.fill: // compared in this way, nothing overflows
			t.left = t.most
		default:
			t.left += rounds * t.fill
		}
		t.filledMs = nowMs - passed%every
	}
	if t.cfg.FreezeTime >= 0 && !t.lucky(nowMs, dice) {
		return false
	}
	if cost = min(cost, t.most); t.left < cost {
		return false
	}
	t.left -= cost
	return true
}

// lucky updates the chance of a refusal, and reports whether this client is not refused. It is
// called with mu held.
func (t *connTokens) lucky(nowMs int64, dice float64) bool {
	if nowMs-t.frozenMs > t.cfg.FreezeTime.Milliseconds() {
		taken := t.most - t.left
		switch {
		case taken == t.most:
			t.chance = min(1, t.chance+t.cfg.DropIncrease)
		case float64(taken) <= float64(t.most)*t.cfg.DecreaseRatio:
			t.chance = max(0, t.chance-t.cfg.DropDecrease)
		}
		t.frozenMs = nowMs
	}
	return dice >= t.chance
}

// state returns the chance of a refusal, and how many tokens are in use.
func (t *connTokens) state() (chance float64, taken int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.chance, t.most - t.left
}

// noteToken records how many tokens are in use when a client connects.
func (s *Server) noteToken() {
	_, taken := s.connTokens.state()
	s.meters.deficits.note(taken, 1)
}

// A refusal is a reason for which a client was not served.
type refusal int

const (
	refusedConn refusal = iota
	refusedRate
	refusedHandshake
	refusedLarge
	refusedWait
	refusedStale
	refusedPace
	refusedIdentity
	refusedWatch
	refusedBegun
	refusals
)

var refusalTexts = [refusals]string{
	refusedConn:      "a connection was refused: there are too many, see maxClientCnxns (per address, or IPv6 network: conclave.ipv6PrefixLength) and maxCnxns",
	refusedRate:      "a client was refused: too many connect at one time, see connection_throttle_tokens",
	refusedHandshake: "a connection was refused: too many handshakes at one time, see netty.server.outstandingHandshake.limit",
	refusedLarge:     "a request was refused: large requests take too much memory together, see largeRequestMaxBytes",
	refusedWait:      "a request was refused: it waited too long for its turn, see throttled_op_wait_time",
	refusedStale:     "a request was dropped with its connection: it was stale when it had its turn, see request_throttle_drop_stale",
	refusedPace:      "a request was refused: its client asks for too much per second, see conclave.sessionRequestsPerSecond and the other limits on rates",
	refusedIdentity:  "a connection was refused: the identity of its client has too many, see conclave.identityConnectionsMax",
	refusedBegun:     "a connection was closed: its client began a long request and does not finish it, and the unfinished requests of all clients take too much memory",
	refusedWatch:     "a watch was refused: there are too many, see conclave.sessionWatchesMax, conclave.identityWatchesMax and conclave.watchesMax",
}

// refused counts a refusal. Each kind is logged once a minute.
func (s *Server) refused(why refusal, client netip.AddrPort) {
	if count, tell := s.stats.refusals[why].Note(s.monoMs()); tell {
		s.cfg.Logger.Warn(refusalTexts[why], "client", client, "refused", count)
	}
}

// Refusals counts what the limits have refused since the start.
type Refusals struct {
	Handshakes, Large, Waited, Stale int64
	Paced                            int64   // by RateLimits
	Identities, Watches              int64   // connections of identities that have too many, and watches
	Waits                            int64   // requests that waited for their turn
	Taken                            int64   // connection tokens in use now
	Chance                           float64 // of a random refusal, now
}

func (s *Server) refusalsReport() Refusals {
	count := func(why refusal) int64 { return s.stats.refusals[why].Count() }
	r := Refusals{Handshakes: count(refusedHandshake), Large: count(refusedLarge), Waited: count(refusedWait),
		Stale: count(refusedStale), Paced: count(refusedPace), Identities: count(refusedIdentity), Watches: count(refusedWatch), Waits: s.stats.waits.Load()}
	r.Chance, r.Taken = s.connTokens.state()
	return r
}

// mayConnect reports whether a client may have a session now.
func (c *conn) mayConnect(session zk.SessionID) bool {
	s := c.server
	if s.connTokens.most <= 0 || s.connTokens.take(s.monoMs(), s.connTokens.costOf(session, s.cfg.LocalSessions), rand.Float64()) {
		return true
	}
	s.conns.rejected.Add(1)
	s.refused(refusedRate, c.remote)
	return false
}

// large counts a large request with the others; false if they are too large together.
func (h *handling) large(held *long, bytes int) bool {
	s := h.conn.server
	t := &s.cfg.Throttle
	if t.LargeBytes <= 0 || bytes <= t.LargeBytes {
		return true
	}
	if s.largeBytes.Add(int64(bytes)) > t.LargeBytesMax {
		s.largeBytes.Add(-int64(bytes))
		s.refused(refusedLarge, h.conn.remote)
		return false
	}
	held.large = int64(bytes)
	return true
}

// Results of waiting for a turn.
type turned int

const (
	turnComes   turned = iota
	turnRefused        // the request must be answered with zk.ErrThrottledOp
	turnOver           // the connection has ended as well
)

// turn waits until the loop may have a request, if it accepts only so many at a time. Requests
// that keep a session alive or end it do not wait.
func (h *handling) turn(held *long, op zk.Op) turned {
	c, s := h.conn, h.conn.server
	t := &s.cfg.Throttle
	if t.RequestsMax <= 0 || op == zk.OpPing || op == zk.OpCloseSession || op == zk.OpAuth || op == zk.OpSASL {
		return turnComes
	}
	before := h.waits
	if !h.admit(&s.slots, 1) {
		return turnOver
	}
	held.slot = true
	if h.waits > before {
		s.stats.waits.Add(1)
	}
	if h.waits == 0 {
		s.meters.turns.note(0, 1)
		return turnComes
	}
	h.unlock() // an earlier request may have been answered here, and isGone needs the lock of the outbox
	waitedMs := s.monoMs() - h.cameMs
	stale := !t.KeepGone && c.isGone() || t.SessionStale && waitedMs > int64(c.timeoutMs.Load())
	if stale && !t.KeepStale {
		s.refused(refusedStale, c.remote)
		return turnOver
	}
	if stale {
		s.meters.staleRequests.Add(1)
	}
	s.meters.turns.note(waitedMs, 1)
	switch {
	case t.WaitMax > 0 && waitedMs > t.WaitMax.Milliseconds():
		s.refused(refusedWait, c.remote)
		return turnRefused
	}
	return turnComes
}

// isGone reports whether nobody is left to receive an answer, as far as that is known without
// reading what the client has sent.
func (c *conn) isGone() bool { return c.out.isEnded() || c.input.atEnd() }

// throttle answers that a request was not carried out. Clients ignore the answer to some
// operations, and would assume that their watches are set; if the connection ends, they ask
// again. For those it returns false.
func (h *handling) throttle(xid zk.Xid, op zk.Op) bool {
	switch op {
	case zk.OpSetWatches, zk.OpSetWatches2, zk.OpAuth, zk.OpSASL:
		return false
	}
	return h.answerOnly(xid, zk.ErrThrottledOp)
}

// answerOnly puts an answer without a body into its place in the order. It returns false if the
// connection has ended.
func (h *handling) answerOnly(xid zk.Xid, code zk.Code) bool {
	h.unlock()
	c := h.conn
	h.w.events = append(h.w.events, replica.Event{
		Kind: replica.EventAuth, Conn: c.id, Request: &zk.Request{Op: zk.OpAuth, Xid: xid}, Code: code, Identities: c.identities,
	})
	h.sent++
	c.out.mu.Lock()
	c.stats.wait(h.nowMs, c.identityBytes)
	c.out.mu.Unlock()
	c.server.claim(c.identityBytes)
	return h.breathe()
}
