package server

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

func TestBudgetIsGivenInTurn(t *testing.T) {
	var b budget
	b.init(10)
	given := func(t *turn) bool {
		select {
		case <-t.given:
			return true
		default:
			return false
		}
	}
	first, second, third, fourth := b.ask(6), b.ask(6), b.ask(3), b.ask(2)
	if !given(first) || given(second) || given(third) || given(fourth) {
		t.Fatal("only the first has space, and nobody overtakes")
	}
	b.abandon(second)
	if !given(third) || given(fourth) {
		t.Fatal("the third has space when the second has gone, the fourth has none")
	}
	b.abandon(third) // it was granted meanwhile
	if !given(fourth) || b.mu.left != 2 {
		t.Fatalf("the fourth has space; %d is left", b.mu.left)
	}
	b.release(6)
	b.release(2)
	if b.mu.left != 10 || len(b.mu.waiting) != 0 {
		t.Errorf("%d is left, %d wait", b.mu.left, len(b.mu.waiting))
	}
}

func TestShortRequestsCostNothingLongOnesNoMoreThanThereIs(t *testing.T) {
	for _, c := range []struct {
		op    zk.Op
		bytes int
		cost  int64
	}{
		{zk.OpMulti, requestLong - 1, 0}, {zk.OpSetData, requestLong, 2 * requestLong}, {zk.OpMulti, requestLong, partsFactor * requestLong},
		{zk.OpMulti, 4 << 20, requestBudgetMax}, {zk.OpSetData, 1 << 30, requestBudgetMax},
	} {
		if got := costOfRequest(c.op, c.bytes); got != c.cost {
			t.Errorf("%v of %d bytes costs %d, want %d", c.op, c.bytes, got, c.cost)
		}
	}
}

// Many clients with long multis have only a few of them in memory at a time, and all are
// answered, even if some have left without waiting for their answers.
func TestLongRequestsShareABudget(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.TickTime, c.HandshakeTime = 10*time.Second, 0 })
	r := zk.Request{Op: zk.OpMulti, Xid: 1}
	for range 25_000 {
		r.Ops = append(r.Ops, zk.Request{Op: zk.OpCheck, Path: "/", Version: -1})
	}
	frame := wire.AppendRequest(nil, &r)
	most := requestBudgetMax / costOfRequest(zk.OpMulti, len(frame))
	const clients, each = 12, 2
	for i := range clients {
		p := dial(t, s, nil)
		go func() {
			for range each {
				_, _ = p.socket.Write(frame)
			}
			if i%3 == 0 {
				p.socket.Close()
				return
			}
			for range each {
				_, _ = readFrame(p.socket)
			}
			p.socket.Close()
		}()
	}
	awaittest.Until(t, "all clients have gone", func() bool {
		if n := s.inFlight.Load(); n > most {
			t.Fatalf("%d long requests are on their way, the budget has space for %d", n, most)
		}
		return len(s.conns.all()) == 0
	})
	s.inspect(func(*replica.Replica) {}) // the last one has returned its part too, at the end of the loop's step
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	if left := s.requests.mu.left; left != requestBudgetMax || len(s.requests.mu.waiting) > 0 {
		t.Errorf("%d bytes of the budget are gone, %d wait", requestBudgetMax-left, len(s.requests.mu.waiting))
	}
}

// A connection from which the server reads nothing, because it already has its requests, does
// not lose its session: the server itself notes that the client is alive.
func TestWaitingForTheLoopIsNoSilence(t *testing.T) {
	const touches = 5
	cfg := testConfig(vfs.NewMem(), func(c *Config) { c.TickTime = 20 * time.Millisecond }).withDefaults()
	s := &Server{cfg: cfg}
	s.done, s.stop = context.WithCancelCause(t.Context())
	s.inbox.init(s.monoMs)
	c := &conn{server: s, id: 7}
	<-c.answers() // the first one is no answer
	go func() {
		for n := 0; n < touches; n += len(s.inbox.take().events) {
			<-s.inbox.ready
		}
		c.resume()
	}()
	if !c.awaitAnswer() {
		t.Fatal("the wait has ended otherwise")
	}
}
