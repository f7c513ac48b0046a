package server

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

var readRoot = zk.Request{Op: zk.OpGetData, Path: "/"}

// paceTest is a server that holds its clients to a pace, with a clock that the test sets.
type paceTest struct {
	*testing.T
	*Server
	now *clock.Manual
	log *awaittest.Log
}

func startPaced(t *testing.T, limits RateLimits) *paceTest {
	p := &paceTest{T: t, now: clock.NewManual(clock.Instant(time.Hour)), log: &awaittest.Log{}}
	p.Server = start(t, vfs.NewMem(), func(c *Config) {
		c.Clock, c.Throttle.Rates, c.Logger = p.now, limits, slog.New(slog.NewTextHandler(p.log, nil))
	})
	return p
}

// awaitWaiting waits until the given number of requests have had to wait.
func (p *paceTest) awaitWaiting(n int64) {
	p.Helper()
	awaittest.Until(p, "a request waits", func() bool { return p.refusalsReport().Waits == n })
}

func (p *paceTest) answered(of *peer, n int) {
	p.Helper()
	for range n {
		if h, _ := of.reply(zk.OpGetData); h.Code != zk.OK {
			p.Errorf("answered %v", h.Code)
		}
	}
}

// The requests of one second and one more are handled at once, the rest at their pace.
func TestRequestBeyondTheRateWaits(t *testing.T) {
	p := startPaced(t, RateLimits{Session: RateLimit{Requests: 10}})
	a, b := dial(t, p.Server, nil), dial(t, p.Server, nil)
	for range 13 {
		a.send(readRoot)
	}
	p.answered(a, 11)
	p.awaitWaiting(1)
	if code, _ := b.do(readRoot); code != zk.OK {
		t.Errorf("another client is answered %v", code)
	}
	p.now.Advance(99 * time.Millisecond)
	p.now.Advance(time.Millisecond)
	p.answered(a, 1)
	p.awaitWaiting(2)
	p.now.Advance(100 * time.Millisecond)
	p.answered(a, 1)
	p.now.Advance(time.Second)
	for range 10 {
		a.send(readRoot)
	}
	p.answered(a, 10)
	if r := p.refusalsReport(); r.Waits != 2 || r.Paced != 0 {
		t.Errorf("%d waited and %d were refused", r.Waits, r.Paced)
	}
}

// A client that has used up the bytes of five seconds is refused for four seconds, but can
// authenticate and stays alive. Refused requests were not carried out.
func TestRequestFarBeyondTheRateIsThrottled(t *testing.T) {
	p := startPaced(t, RateLimits{Session: RateLimit{Bytes: 1000}})
	a := dial(t, p.Server, nil)
	if code, _ := a.do(create("/a", strings.Repeat("x", 5000), 0)); code != zk.OK {
		t.Fatalf("a large request after a pause is answered %v", code)
	}
	for range 2 {
		if code, _ := a.do(create("/b", "", 0)); code != zk.ErrThrottledOp {
			t.Errorf("the next one is answered %v", code)
		}
	}
	for _, r := range []zk.Request{{Op: zk.OpPing}, {Op: zk.OpAuth, Scheme: "digest", Data: []byte("bob:secret")}} {
		if code, _ := a.do(r); code != zk.OK {
			t.Errorf("%v is answered %v", r.Op, code)
		}
	}
	if n := p.refusalsReport().Paced; n != 2 || p.lines(p.log, "conclave.sessionRequestsPerSecond") != 1 {
		t.Errorf("%d refused, %d lines", n, p.lines(p.log, "conclave.sessionRequestsPerSecond"))
	}
	p.now.Advance(4100 * time.Millisecond) // within the session timeout of 5 s
	if code, _ := a.do(zk.Request{Op: zk.OpGetData, Path: "/b"}); code != zk.ErrNoNode {
		t.Errorf("what was refused was carried out: %v", code)
	}
	if code, _ := a.do(zk.Request{Op: zk.OpCloseSession}); code != zk.OK {
		t.Errorf("closeSession is answered %v", code)
	}
}

// Connections of one address, or of one identity, share its pace.
func TestConnectionsShareThePaceOfTheirAddressAndIdentity(t *testing.T) {
	bob := zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("bob:secret")}
	for name, limits := range map[string]RateLimits{
		"address":  {Address: RateLimit{Requests: 2}},
		"identity": {Identity: RateLimit{Requests: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPaced(t, limits)
			peers := []*peer{dial(t, p.Server, nil), dial(t, p.Server, nil), dial(t, p.Server, nil)}
			for _, one := range peers[:2] {
				one.do(bob)
				one.do(bob) // is counted once
			}
			for _, one := range []*peer{peers[0], peers[1], peers[0]} { // three at once
				if code, _ := one.do(readRoot); code != zk.OK {
					t.Errorf("answered %v", code)
				}
			}
			peers[1].send(readRoot)
			p.awaitWaiting(1)
			peers[2].send(readRoot) // has proved nothing
			if name == "address" {
				p.awaitWaiting(2)
				p.now.Advance(time.Second)
			}
			p.answered(peers[2], 1)
			p.now.Advance(500 * time.Millisecond)
			p.answered(peers[1], 1)
			for _, one := range peers {
				one.socket.Close()
			}
			awaittest.Until(t, "nothing is kept of connections that have gone", func() bool {
				p.paces.mu.Lock()
				defer p.paces.mu.Unlock()
				return len(p.paces.all) == 0
			})
		})
	}
}

// What an address or an identity has used counts when its client connects again.
func TestNewConnectionOwesWhatTheLastOneDid(t *testing.T) {
	p := startPaced(t, RateLimits{Address: RateLimit{Requests: 10}})
	leaves := func(a *peer) {
		a.socket.Close()
		awaittest.Until(t, "it has gone", func() bool {
			p.paces.mu.Lock()
			defer p.paces.mu.Unlock()
			return len(p.paces.all) == 0
		})
	}
	for range 11 {
		a := dial(t, p.Server, nil)
		if code, _ := a.do(readRoot); code != zk.OK {
			t.Fatal(code)
		}
		leaves(a)
	}
	a := dial(t, p.Server, nil)
	a.send(readRoot)
	p.awaitWaiting(1)
	p.now.Advance(100 * time.Millisecond)
	p.answered(a, 1)
}

// Only a limited number is kept: those that owe most.
func TestPacesWithoutAConnectionAreLimited(t *testing.T) {
	const nowNs, others = int64(time.Hour), 3 * pacesKept
	var p paces
	who := func(i int) zk.Identity { return zk.Identity{Scheme: "ip", ID: strconv.Itoa(i)} }
	p.enter(who(0), RateLimit{Bytes: 10}).spend(nowNs, 50)
	p.leave(who(0), nowNs)
	for i := range others {
		p.enter(who(i+1), RateLimit{Bytes: 10}).spend(nowNs, 1)
		p.leave(who(i+1), nowNs)
	}
	p.enter(who(others+1), RateLimit{Bytes: 10})
	p.leave(who(others+1), nowNs) // owes nothing
	if len(p.kept) != pacesKept || len(p.all) != 0 {
		t.Errorf("%d are kept, and %d have connections", len(p.kept), len(p.all))
	}
	if ns := p.enter(who(0), RateLimit{Bytes: 10}).wait(nowNs); ns != 4*bucketNs {
		t.Errorf("the one that owed most waits for %d ns", ns)
	}
	laterNs := nowNs + 2*bucketNs
	p.leave(who(0), laterNs)
	p.enter(who(others+1), RateLimit{Bytes: 10}).spend(laterNs, 1)
	p.leave(who(others+1), laterNs)
	if len(p.kept) != 2 {
		t.Errorf("%d are kept when all others have paid", len(p.kept))
	}
}

// A connection that ends while a request of it waits is forgotten.
func TestEndOfAConnectionEndsItsWait(t *testing.T) {
	p := startPaced(t, RateLimits{Address: RateLimit{Requests: 1}})
	a := dial(t, p.Server, nil)
	a.send(readRoot, readRoot, readRoot)
	p.awaitWaiting(1)
	b := dial(t, p.Server, a) // its client connects again, and the old connection is ended
	a.socket.Close()
	p.now.Advance(time.Second)
	if code, _ := b.do(zk.Request{Op: zk.OpPing}); code != zk.OK {
		t.Error(code)
	}
	awaittest.Until(t, "one connection is left", func() bool {
		p.paces.mu.Lock()
		defer p.paces.mu.Unlock()
		return len(p.paces.all) == 1 && p.paces.all[zk.Identity{Scheme: "ip", ID: "127.0.0.1"}].conns == 1
	})
}
