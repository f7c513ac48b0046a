package server

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

func TestTokensOfConnectingComeBackWithTime(t *testing.T) {
	cfg := defaultThrottles().Conns
	cfg.Tokens, cfg.FillTime, cfg.FillCount = 3, 10*time.Millisecond, 2
	var tokens connTokens
	tokens.init(cfg, 0)
	for i, c := range []struct {
		nowMs int64
		want  bool
	}{
		{1, true}, {1, true}, {1, true}, {1, false}, {9, false}, // all are taken
		{15, true}, {15, true}, {15, false}, // two came back at 10
		{20, true}, {20, true}, {20, false}, // and two at 20
		{1 << 60, true}, {1 << 60, true}, {1 << 60, true}, {1 << 60, false}, // never more than there are
	} {
		if got := tokens.take(c.nowMs, 1, 0); got != c.want {
			t.Errorf("%d, at %d: %t", i, c.nowMs, got)
		}
	}
	tokens.init(ConnThrottle{}, 0)
	if !tokens.take(0, 1, 0) {
		t.Error("without tokens there is no limit")
	}
}

func TestKindsOfSessionsTakeTheirWeights(t *testing.T) {
	cfg := defaultThrottles().Conns
	cfg.Tokens, cfg.FillTime, cfg.Weights = 2, time.Hour, true
	var tokens connTokens
	tokens.init(cfg, 0)
	global, renewed, local := tokens.costOf(0, false), tokens.costOf(7, false), tokens.costOf(0, true)
	if global != 3 || renewed != 2 || local != 1 || tokens.most != 6 {
		t.Fatal(global, renewed, local, tokens.most)
	}
	if !tokens.take(1, global, 0) || !tokens.take(1, renewed, 0) || tokens.take(1, renewed, 0) || !tokens.take(1, local, 0) || tokens.take(1, local, 0) {
		t.Error("six tokens are 3, 2 and 1")
	}
	cfg.Tokens, cfg.RenewTakes = 1, 9
	tokens.init(cfg, 0)
	if !tokens.take(1, tokens.costOf(7, false), 0) {
		t.Error("a weight of more than all tokens keeps everybody out for ever")
	}
}

// When all tokens were taken, a part of the clients is refused at random, and the part shrinks
// when the tokens are back.
func TestChanceOfBeingRefusedGrowsWhileTokensLack(t *testing.T) {
	cfg := defaultThrottles().Conns
	cfg.Tokens, cfg.FillTime, cfg.FillCount, cfg.FreezeTime = 2, time.Second, 2, 10*time.Millisecond
	cfg.DropIncrease, cfg.DropDecrease, cfg.DecreaseRatio = 0.5, 0.25, 0.5
	var tokens connTokens
	tokens.init(cfg, 0)
	const lucky, unlucky = 0.99, 0
	steps := []struct {
		nowMs  int64
		dice   float64
		chance float64
		want   bool
	}{
		{1, unlucky, 0, true}, {1, unlucky, 0, true}, {1, unlucky, 0, false}, // the tokens are taken
		{20, lucky, 0.5, false}, {25, lucky, 0.5, false}, // frozen for 10 ms
		{1000, unlucky, 0.25, false}, // they are back; the chance falls, and still has an effect
		{1001, 0.25, 0.25, true}, {1020, 0.1, 0, true},
	}
	for i, c := range steps {
		got := tokens.take(c.nowMs, 1, c.dice)
		if chance, _ := tokens.state(); got != c.want || chance != c.chance {
			t.Errorf("%d, at %d: %t with a chance of %v", i, c.nowMs, got, chance)
		}
	}
}

// hello is the first frame of a client.
func hello() []byte {
	return wire.AppendConnectRequest(nil, &wire.ConnectRequest{TimeoutMs: 5000, Password: make([]byte, 16)})
}

// hold keeps the loop busy until the function that it returns is called.
func hold(t *testing.T, s *Server) func() {
	t.Helper()
	held, gate := make(chan struct{}), make(chan struct{})
	go s.inspect(func(*replica.Replica) { close(held); <-gate })
	<-held
	release := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	return release
}

func TestClientsThatConnectTooFastAreDisconnectedAndToldOfOnce(t *testing.T) {
	log := &awaittest.Log{}
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.Throttle.Conns.Tokens, c.Throttle.Conns.FillTime = 2, time.Hour
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	first := dial(t, s, nil)
	dial(t, s, nil)
	for range 3 {
		socket := knock(t, s)
		socket.Write(hello())
		if err := closes(socket); err != nil {
			t.Error(err)
		}
	}
	if code, _ := first.do(create("/a", "", 0)); code != zk.OK {
		t.Error(code)
	}
	if st := s.Status(); st.Rejected != 3 || st.Refusals.Taken != 2 {
		t.Errorf("%+v", st)
	}
	if n := s.lines(log, "see connection_throttle_tokens"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestConnectionsBeyondTheLimitAreToldOfOnce(t *testing.T) {
	log := &awaittest.Log{}
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.ConnsPerIPMax = 1
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	dial(t, s, nil)
	for range 3 {
		if err := refuses(s); err != nil {
			t.Error(err)
		}
	}
	if n := s.lines(log, "see maxClientCnxns"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestRequestsWaitForTheirTurnAndAreCarriedOut(t *testing.T) {
	now := clock.NewManual(0)
	s := start(t, vfs.NewMem(), func(c *Config) { c.Clock, c.Throttle.RequestsMax = now, 2 })
	a, b := dial(t, s, nil), dial(t, s, nil)
	release := hold(t, s)
	a.send(create("/a", "", 0), create("/b", "", 0), create("/c", "", 0), create("/d", "", 0))
	awaittest.Until(t, "a waits", func() bool { return s.slotsWaiting() == 1 })
	b.send(create("/e", "", 0), zk.Request{Op: zk.OpGetData, Path: "/a"})
	awaittest.Until(t, "b waits", func() bool { return s.slotsWaiting() == 2 })
	if n := s.inFlight.Load(); n != 2 {
		t.Errorf("%d requests are on their way", n)
	}
	now.Advance(5 * time.Millisecond)
	release()
	for i, p := range []*peer{a, a, a, a, b, b} {
		if h, _ := p.reply(zk.OpCreate); h.Code != zk.OK {
			t.Errorf("%d: %v", i, h.Code)
		}
	}
	awaittest.Until(t, "all turns are free", func() bool { return s.slotsLeft() == 2 })
	if n := s.refusalsReport().Waits; n < 2 {
		t.Errorf("%d waited", n)
	}
	if n := s.Meters().Turns; n.Count < 5 || n.Sum < 5 { // a read behind a write may be answered at once
		t.Errorf("%d turns in %d ms", n.Count, n.Sum)
	}
}

func (s *Server) slotsWaiting() int {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	return len(s.slots.mu.waiting)
}

func (s *Server) slotsLeft() int64 {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	return s.slots.mu.left
}

// Reads that are answered at once, and heartbeats, wait for nobody.
func TestReadsAndPingsPassThoseThatWait(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.Throttle.RequestsMax = 1 })
	a, b := dial(t, s, nil), dial(t, s, nil)
	release := hold(t, s)
	a.send(create("/a", "", 0))
	awaittest.Until(t, "the turn is taken", func() bool { return s.slotsLeft() == 0 })
	if code, _ := b.do(zk.Request{Op: zk.OpGetData, Path: "/"}); code != zk.OK {
		t.Error(code)
	}
	if code, _ := b.do(zk.Request{Op: zk.OpPing}); code != zk.OK {
		t.Error(code)
	}
	release()
	a.reply(zk.OpCreate)
}

// A request that gets its turn at once may come after one that had to wait, and after a read
// that was answered here. The check whether its client is gone must not be made with the tree
// or an outbox locked.
func TestTurnBehindAReadHoldsNobodyUp(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.Throttle.RequestsMax = 1 })
	a, b := dial(t, s, nil), dial(t, s, nil)
	set := zk.Request{Op: zk.OpSetData, Path: "/", Data: []byte("x"), Version: -1}
	release := hold(t, s)
	a.send(set)
	awaittest.Until(t, "the turn is taken", func() bool { return s.slotsLeft() == 0 })
	b.send(set, zk.Request{Op: zk.OpGetEphemerals, Path: "/"}, zk.Request{Op: zk.OpGetData, Path: "/"}, set)
	awaittest.Until(t, "b waits", func() bool { return s.slotsWaiting() == 1 })
	release()
	a.reply(zk.OpSetData)
	for _, op := range []zk.Op{zk.OpSetData, zk.OpGetEphemerals, zk.OpGetData, zk.OpSetData} {
		if h, _ := b.reply(op); h.Code != zk.OK {
			t.Errorf("%v: %v", op, h.Code)
		}
	}
}

func TestRequestThatWaitedTooLongIsThrottled(t *testing.T) {
	log, now := &awaittest.Log{}, clock.NewManual(0)
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.Clock, c.Throttle.RequestsMax, c.Throttle.WaitMax = now, 1, time.Millisecond
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	a, b := dial(t, s, nil), dial(t, s, nil)
	release := hold(t, s)
	a.send(create("/a", "", 0))
	awaittest.Until(t, "the turn is taken", func() bool { return s.slotsLeft() == 0 })
	multi := zk.Request{Op: zk.OpMulti, Ops: []zk.Request{create("/m", "", 0)}}
	b.send(create("/b", "", 0), multi, zk.Request{Op: zk.OpGetData, Path: "/"})
	awaittest.Until(t, "b waits", func() bool { return s.slotsWaiting() == 1 })
	now.Advance(5 * time.Millisecond)
	release()
	if h, _ := a.reply(zk.OpCreate); h.Code != zk.OK {
		t.Error(h.Code)
	}
	for range 2 {
		if h, _ := b.reply(zk.OpCreate); h.Code != zk.ErrThrottledOp {
			t.Errorf("answered %v", h.Code)
		}
	}
	b.reply(zk.OpGetData)
	if code, _ := b.do(create("/b", "", 0)); code != zk.OK {
		t.Errorf("the next one is answered %v", code)
	}
	if code, _ := b.do(zk.Request{Op: zk.OpGetData, Path: "/m"}); code != zk.ErrNoNode {
		t.Errorf("what was refused was carried out: %v", code)
	}
	if n := s.Status().Refusals.Waited; n < 2 || s.lines(log, "see throttled_op_wait_time") != 1 {
		t.Errorf("%d refused, %d lines", n, s.lines(log, "see throttled_op_wait_time"))
	}
	awaittest.Until(t, "the turn is free", func() bool { return s.slotsLeft() == 1 })
}

func TestStaleRequestIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ThrottleConfig)
		leave  bool
		stale  bool
	}{
		"its client has gone":           {func(*ThrottleConfig) {}, true, true},
		"it is there":                   {func(*ThrottleConfig) {}, false, false},
		"gone, and that is not asked":   {func(t *ThrottleConfig) { t.KeepGone = true }, true, false},
		"gone, and stale ones are kept": {func(t *ThrottleConfig) { t.KeepStale = true }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, vfs.NewMem(), func(cfg *Config) { cfg.Throttle.RequestsMax = 1; c.change(&cfg.Throttle) })
			a, b := dial(t, s, nil), dial(t, s, nil)
			release := hold(t, s)
			a.send(create("/a", "", 0))
			awaittest.Until(t, "the turn is taken", func() bool { return s.slotsLeft() == 0 })
			b.send(create("/b", "", 0))
			awaittest.Until(t, "b waits", func() bool { return s.slotsWaiting() == 1 })
			if c.leave {
				b.socket.Close()
			}
			release()
			a.reply(zk.OpCreate)
			if c.stale {
				awaittest.Until(t, "it is dropped", func() bool { return s.refusalsReport().Stale == 1 })
			} else {
				awaittest.Until(t, "it is carried out", func() bool {
					code, _ := a.do(zk.Request{Op: zk.OpExists, Path: "/b"})
					return code == zk.OK
				})
			}
			awaittest.Until(t, "the turn is free", func() bool { return s.slotsLeft() == 1 })
			if n := s.Meters().StaleRequests; (n == 1) != (name == "gone, and stale ones are kept") || n > 1 {
				t.Errorf("%d stale requests were carried out", n)
			}
			if code, _ := a.do(zk.Request{Op: zk.OpExists, Path: "/b"}); (code == zk.ErrNoNode) != c.stale {
				t.Error(code)
			}
		})
	}
}

func TestLargeRequestsBeyondTheirLimitAreThrottled(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.Throttle.LargeBytes, c.Throttle.LargeBytesMax = 1000, 5000 })
	a, b := dial(t, s, nil), dial(t, s, nil)
	large := func(path string) zk.Request { return create(path, strings.Repeat("x", 3000), 0) }
	release := hold(t, s)
	a.send(large("/a"))
	awaittest.Until(t, "a is on its way", func() bool { return s.largeBytes.Load() > 3000 })
	b.send(large("/b"), create("/small", "", 0))
	awaittest.Until(t, "b is refused", func() bool { return s.refusalsReport().Large == 1 })
	release()
	if h, _ := a.reply(zk.OpCreate); h.Code != zk.OK {
		t.Error(h.Code)
	}
	for i, want := range []zk.Code{zk.ErrThrottledOp, zk.OK} {
		if h, _ := b.reply(zk.OpCreate); h.Code != want {
			t.Errorf("%d: %v, want %v", i, h.Code, want)
		}
	}
	awaittest.Until(t, "nothing is on its way", func() bool { return s.largeBytes.Load() == 0 })
	if code, _ := b.do(large("/b")); code != zk.OK {
		t.Error(code)
	}
	if code, _ := b.do(zk.Request{Op: zk.OpMultiRead, Ops: []zk.Request{{Op: zk.OpGetData, Path: "/" + strings.Repeat("y", 2000)}}}); code != zk.OK {
		t.Error(code)
	}
	awaittest.Until(t, "a large read is counted off", func() bool { return s.largeBytes.Load() == 0 })
}

// No client looks at the answer to a list of watches: after an error it would consider them
// set.
func TestListOfWatchesThatIsRefusedEndsTheConnection(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.Throttle.LargeBytes, c.Throttle.LargeBytesMax = 1000, 1500 })
	p := dial(t, s, nil)
	sets := &zk.SetWatches{}
	for range 100 {
		sets.Exist = append(sets.Exist, "/a-path-of-twenty-bytes")
	}
	p.send(zk.Request{Op: zk.OpSetWatches, SetWatches: sets})
	if err := closes(p.socket); err != nil {
		t.Error(err)
	}
	if n := s.Status().Watches.All; n != 0 {
		t.Errorf("%d watches are set", n)
	}
	if again := dial(t, s, p); again.id != p.id {
		t.Error("the session went with the connection")
	}
	awaittest.Until(t, "nothing is on its way", func() bool { return s.largeBytes.Load() == 0 })
}

// slowHandshake is a connection whose handshake ends when the gate opens.
type slowHandshake struct {
	net.Conn
	gate chan struct{}
}

func (c slowHandshake) Prove() (string, error) {
	<-c.gate
	return "", nil
}

type slowHandshakes struct {
	net.Listener
	gate chan struct{}
}

func (l slowHandshakes) Accept() (net.Conn, error) {
	socket, err := l.Listener.Accept()
	return slowHandshake{socket, l.gate}, err
}

func TestHandshakesBeyondTheLimitAreRefused(t *testing.T) {
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.Throttle.HandshakesMax = 2
		c.SecureClients = func(l net.Listener, _ bool) net.Listener { return slowHandshakes{l, gate} }
	})
	t.Cleanup(open)
	first := knock(t, s)
	knock(t, s)
	awaittest.Until(t, "two shake hands", func() bool { return s.handshakes.now() == 2 })
	for range 2 {
		if err := refuses(s); err != nil {
			t.Error(err)
		}
	}
	if n := s.refusalsReport().Handshakes; n != 2 {
		t.Errorf("%d were refused", n)
	}
	if n := s.Meters().Handshaking; n != 2 {
		t.Errorf("%d shake hands", n)
	}
	open()
	first.Write(hello())
	if _, err := readFrame(first); err != nil {
		t.Errorf("one that was within the limit: %v", err)
	}
	awaittest.Until(t, "nobody shakes hands", func() bool { return s.handshakes.now() == 0 })
}
