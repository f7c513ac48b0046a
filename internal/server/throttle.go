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

// ThrottleConfig are ZooKeeper's throttles. The zero value has none on.
type ThrottleConfig struct {
	Conns         ConnThrottle
	HandshakesMax int // netty.server.outstandingHandshake.limit: of TLS at one time; 0 is no limit

	RequestsMax  int           // request_throttle_max_requests: with the loop at one time; 0 is no limit
	WaitMax      time.Duration // throttled_op_wait_time: who waits longer for that is answered with zk.ErrThrottledOp; 0 is no limit
	KeepStale    bool          // request_throttle_drop_stale=false: a stale request is carried out, too
	KeepGone     bool          // request_stale_connection_check=false: one whose client has gone is not stale
	SessionStale bool          // request_stale_latency_check: one that has waited longer than its session lasts is

	LargeBytes    int   // largeRequestThreshold: a request is large beyond so many bytes; 0 is never
	LargeBytesMax int64 // largeRequestMaxBytes: of all large requests together

	Rates RateLimits

	// IdentityConnsMax is how many connections one identity may have, which clients have
	// proved (conclave.identityConnectionsMax); 0 is no limit.
	IdentityConnsMax int
	Watches          watch.Limits // Refused is the server's own
}

// ConnThrottle bounds how fast clients may connect: each takes tokens, which come back
// with time. Once all were taken for a while, a part of the clients is refused by chance,
// so that a herd spreads (BLUE).
type ConnThrottle struct {
	Tokens    int           // connection_throttle_tokens: how many there are at most; 0 is no limit
	FillTime  time.Duration // connection_throttle_fill_time
	FillCount int           // connection_throttle_fill_count: come back in each FillTime

	FreezeTime    time.Duration // connection_throttle_freeze_time: between two changes of the chance; below 0 there is none
	DropIncrease  float64       // connection_throttle_drop_increase: of the chance, when no token is left
	DropDecrease  float64       // connection_throttle_drop_decrease: when few are taken
	DecreaseRatio float64       // connection_throttle_decrease_ratio: what few is, of all tokens

	Weights     bool // connection_throttle_weight_enabled: kinds of sessions take these, else each takes one
	GlobalTakes int  // connection_throttle_global_session_weight; Tokens and FillCount count in these
	RenewTakes  int  // connection_throttle_renew_session_weight
	LocalTakes  int  // connection_throttle_local_session_weight
}

// defaultThrottles are ZooKeeper's.
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
	most int64 // tokens, and how many come back: by weight
	fill int64

	mu       sync.Mutex
	left     int64
	filledMs int64 // when tokens came back last
	chance   float64
	frozenMs int64 // when the chance changed last
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

// take reports whether a client may connect. dice is from 0 to below 1.
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
		case rounds > (t.most-t.left)/t.fill: // and nothing overflows
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

// lucky changes the chance of being refused, and reports whether this one is not.
// Called with mu held.
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

// state returns the chance of being refused, and how many tokens are taken.
func (t *connTokens) state() (chance float64, taken int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.chance, t.most - t.left
}

// noteToken measures how many tokens are taken when a client connects.
func (s *Server) noteToken() {
	_, taken := s.connTokens.state()
	s.meters.deficits.note(taken, 1)
}

// A refusal is why somebody was not served.
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

// refused counts a refusal. The log has each kind once a minute.
func (s *Server) refused(why refusal, client netip.AddrPort) {
	if count, tell := s.stats.refusals[why].Note(s.monoMs()); tell {
		s.cfg.Logger.Warn(refusalTexts[why], "client", client, "refused", count)
	}
}

// Refusals are what the limits have refused since the start.
type Refusals struct {
	Handshakes, Large, Waited, Stale int64
	Paced                            int64   // by RateLimits
	Identities, Watches              int64   // connections of identities that have too many, watches
	Waits                            int64   // requests that waited for their turn
	Taken                            int64   // tokens of connecting, now
	Chance                           float64 // of being refused by chance, now
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

// What comes of waiting for a turn.
type turned int

const (
	turnComes   turned = iota
	turnRefused        // the request is to be answered with zk.ErrThrottledOp
	turnOver           // and the connection
)

// turn waits until the loop may have a request, where it takes only so many at one time.
// What keeps a session alive, and what ends it, waits for nobody.
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
	h.unlock() // a request before it may have been answered here, and who is gone is asked of the outbox
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

// isGone reports whether nobody is there any more who would receive an answer, as far as
// that is known without reading what the client has sent.
func (c *conn) isGone() bool { return c.out.isEnded() || c.input.atEnd() }

// throttle answers that a request was not carried out. Clients do not look at the answer to
// some, and would take their watches for set: the end of the connection makes them ask
// again. It returns false then.
func (h *handling) throttle(xid zk.Xid, op zk.Op) bool {
	switch op {
	case zk.OpSetWatches, zk.OpSetWatches2, zk.OpAuth, zk.OpSASL:
		return false
	}
	return h.answerOnly(xid, zk.ErrThrottledOp)
}

// answerOnly puts an answer without a body into its place in the order. It returns false if
// the connection has ended.
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
