package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

func TestAnIdleSessionIsKeptAliveByPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{timeoutMs: 9000}
		c := f.start(t, nil)
		time.Sleep(time.Hour)
		f.mu.Lock()
		pings := f.pings
		f.mu.Unlock()
		if c.State() != Connected || pings < 1198 || pings > 1201 {
			t.Errorf("state %v after %d pings", c.State(), pings)
		}
		if until, proven := c.ProvenUntil(); !proven || until > c.clock.Now().Add(-30*time.Minute) {
			t.Errorf("pings have proven the session until %v, it is %v", until, c.clock.Now())
		}
		must(t, c.Close())
	})
}

// TestASessionIsGivenUpWhenNoServerAnswers (scenario-K04).
func TestASessionIsGivenUpWhenNoServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{timeoutMs: 9000}
		c := f.start(t, nil)
		_, err := c.Set(t.Context(), "/a", nil, -1)
		must(t, err)
		deadline := time.Now().Add(9 * time.Second)
		w, err := c.Watch(t.Context(), "/a", zk.WatchPersistent)
		must(t, err)
		f.setDown(true)
		_, _, err = c.Get(t.Context(), "/a") // waits for a server as long as there is hope
		wantCode(t, err, zk.ErrSessionExpired)
		if late := time.Since(deadline); late < 0 || late > time.Millisecond {
			t.Errorf("given up %v after the deadline", late)
		}
		<-c.Done()
		if c.State() != Lost || !errors.Is(c.Err(), zk.ErrSessionExpired) {
			t.Errorf("state %v, %v", c.State(), c.Err())
		}
		if _, open := <-w.Events(); open || !errors.Is(w.Err(), zk.ErrSessionExpired) {
			t.Errorf("the watch did not end: %v", w.Err())
		}
		c.Close()
		if len(f.dials) < 10 {
			t.Errorf("%d attempts only", len(f.dials))
		}
	})
}

func TestWhatBecameOfARequestIsTold(t *testing.T) {
	lose := func(op zk.Op, times int) func(*fakeConn, *zk.Request) bool {
		return func(f *fakeConn, r *zk.Request) bool {
			if r.Op != op || f.seen(op) > times {
				return false
			}
			_ = f.Close()
			return true
		}
	}
	inBubble("a read whose reply is lost is sent again", t, func(t *testing.T) {
		f := &fake{script: lose(zk.OpGetData, 3)}
		c := f.start(t, nil)
		data, _, err := c.Get(t.Context(), "/a")
		if string(data) != "/a" || err != nil || f.seen(zk.OpGetData) != 4 {
			t.Errorf("%q, %v after %d requests", data, err, f.seen(zk.OpGetData))
		}
		c.Close()
	})
	inBubble("a write whose reply is lost is not", t, func(t *testing.T) {
		f := &fake{script: lose(zk.OpSetData, 1)}
		c := f.start(t, nil)
		_, err := c.Set(t.Context(), "/a", nil, -1)
		if !errors.Is(err, zk.ErrConnectionLoss) || OutcomeOf(err) != Unknown || f.seen(zk.OpSetData) != 1 {
			t.Errorf("%v, %v", err, OutcomeOf(err))
		}
		if want := "setData /a: connection lost: server closed the connection: EOF (unknown whether applied)"; err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		c.Close()
	})
	inBubble("a successful write with a reply that cannot be read", t, func(t *testing.T) {
		f := &fake{script: func(f *fakeConn, r *zk.Request) bool {
			if r.Op == zk.OpSetData {
				r.Op = zk.OpDelete // no body
				f.reply(r, zk.OK)
				return true
			}
			return false
		}}
		c := f.start(t, nil)
		_, err := c.Set(t.Context(), "/a", nil, -1)
		if !errors.Is(err, zk.ErrConnectionLoss) || OutcomeOf(err) != Applied {
			t.Errorf("%v, %v", err, OutcomeOf(err))
		}
		c.Close()
	})
	inBubble("a watch whose reply cannot be read is not kept", t, func(t *testing.T) {
		f := &fake{script: func(f *fakeConn, r *zk.Request) bool {
			if r.Op == zk.OpGetData {
				r.Op = zk.OpDelete // no body
				f.reply(r, zk.OK)
				return true
			}
			return false
		}}
		c := f.start(t, nil)
		_, _, _, err := c.GetW(t.Context(), "/a")
		if !errors.Is(err, zk.ErrConnectionLoss) || OutcomeOf(err) != NotApplied {
			t.Errorf("%v, %v", err, OutcomeOf(err))
		}
		_, err = c.Set(t.Context(), "/a", nil, -1) // on the next connection
		must(t, err)
		if n := f.seen(zk.OpSetWatches); n != 0 {
			t.Errorf("%d setWatches for a watch that nobody has", n)
		}
		c.Close()
	})
	inBubble("a context that ends", t, func(t *testing.T) {
		f := &fake{script: func(_ *fakeConn, r *zk.Request) bool { return r.Op == zk.OpSetData || r.Op == zk.OpGetData }}
		c := f.start(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Set(ctx, "/a", nil, -1)
		if !errors.Is(err, context.DeadlineExceeded) || OutcomeOf(err) != Unknown {
			t.Errorf("a write: %v, %v", err, OutcomeOf(err))
		}
		_, err = c.Set(ctx, "/a", nil, -1)
		if !errors.Is(err, context.DeadlineExceeded) || OutcomeOf(err) != NotApplied || f.seen(zk.OpSetData) != 1 {
			t.Errorf("a context that had ended: %v, %v", err, OutcomeOf(err))
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err = c.Get(ctx, "/a"); OutcomeOf(err) != NotApplied {
			t.Errorf("a read: %v, %v", err, OutcomeOf(err))
		}
		f.setDown(true)
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = c.Set(ctx, "/a", nil, -1); OutcomeOf(err) != NotApplied {
			t.Errorf("a write while no server is there: %v, %v", err, OutcomeOf(err))
		}
		c.Close()
	})
}

// scenario-K03: when a connection is lost, a prefix of what was pipelined was applied,
// and everything after the first request without an answer has failed.
func TestPipelinedRequestsFailTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		submitted := make(chan struct{})
		f.script = func(f *fakeConn, r *zk.Request) bool {
			<-submitted
			if r.Op == zk.OpSetData && r.Version == 500 {
				_ = f.Close()
				return true
			}
			return r.Op == zk.OpSetData && r.Version == 499 // no answer
		}
		c := f.start(t, nil)
		var futures []*Future
		for i := range 1000 {
			future, err := c.Submit(t.Context(), zk.Request{Op: zk.OpSetData, Path: "/a", Version: int32(i)})
			must(t, err)
			futures = append(futures, future)
		}
		close(submitted)
		for i, future := range futures {
			_, err := future.Wait(t.Context())
			switch outcome := OutcomeOf(err); {
			case i < 499 && err != nil, i >= 499 && err == nil, i == 499 && outcome != Unknown, outcome == Applied && i > 499:
				t.Fatalf("request %d: %v", i, err)
			}
		}
		if n := f.seen(zk.OpSetData); n != 501 {
			t.Errorf("%d requests were read, want 501: none is sent again", n)
		}
		c.Close()
	})
}

// TestClosingAtAnyInstantEndsEverything (scenario-K07): the bubble fails if a
// goroutine is left.
func TestClosingAtAnyInstantEndsEverything(t *testing.T) {
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			f := &fake{script: func(f *fakeConn, _ *zk.Request) bool {
				f.mu.Lock()
				wait := f.zxid % 5
				f.mu.Unlock()
				time.Sleep(time.Duration(wait) * time.Millisecond)
				return false
			}}
			c, err := New("a:1,b:1", f.options())
			must(t, err)
			var group sync.WaitGroup
			for i := range 8 {
				group.Go(func() {
					for {
						path := fmt.Sprintf("/%d", i)
						if _, _, w, err := c.GetW(t.Context(), path); err == nil {
							w.Close()
						}
						if _, err := c.Set(t.Context(), path, nil, -1); errors.Is(err, zk.ErrClosing) {
							return
						}
					}
				})
			}
			group.Go(func() {
				for c.Err() == nil {
					time.Sleep(7 * time.Millisecond)
					f.cut()
				}
			})
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
			if seed%3 == 0 {
				c.Detach()
			}
			c.Close()
			group.Wait()
			time.Sleep(time.Second) // a server that takes its time ends, too
		})
	}
}

func TestClosingTwiceOrAtOnceIsHarmless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New("a:1", (&fake{down: true}).options())
		must(t, err)
		must(t, c.Close())
		must(t, c.Close())
		f := &fake{}
		c = f.start(t, nil)
		f.setDown(true)
		synctest.Wait()
		if err := c.Close(); !errors.Is(err, zk.ErrConnectionLoss) {
			t.Errorf("closing without a server: %v", err)
		}
	})
}

// scenario-K02: there are no callbacks. A reader that does not read its events blocks
// nobody, and is told that it has missed some.
func TestAReaderThatIsBehindIsToldOfTheGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: func(f *fakeConn, r *zk.Request) bool {
			if r.Op == zk.OpSetData {
				f.notify(zk.EventNodeDataChanged, "/a")
			}
			return false
		}}
		c := f.start(t, func(o *Options) { o.WatchQueue = 4 })
		w, err := c.Watch(t.Context(), "/a", zk.WatchPersistent)
		must(t, err)
		change := func(n int) {
			for range n {
				_, err := c.Set(t.Context(), "/a", nil, -1)
				must(t, err)
			}
		}
		read := func(n int) (seen string) {
			for range n {
				if event := <-w.Events(); event.Type == zk.EventNone {
					seen += "?"
				} else {
					seen += "."
				}
			}
			return seen
		}
		change(10)
		if seen := read(5); seen != "....?" {
			t.Errorf("saw %s, want four events and the gap", seen)
		}
		change(5)
		if seen := read(1); seen != "." {
			t.Errorf("saw %s, want an event", seen)
		}
		change(3) // the mark of a gap still waits and stands for them
		if seen := read(4); seen != "...?" {
			t.Errorf("saw %s, want three events and the gap", seen)
		}
		c.Close()
	})
}

func TestRequestsWaitForSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: func(_ *fakeConn, r *zk.Request) bool { return r.Op == zk.OpGetData }}
		c := f.start(t, func(o *Options) { o.InFlightMax = 3 })
		for range 3 {
			_, err := c.Submit(t.Context(), zk.Request{Op: zk.OpGetData, Path: "/a"})
			must(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Submit(ctx, zk.Request{Op: zk.OpGetData, Path: "/a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a fourth request: %v", err)
		}
		var err error
		waiting := make(chan struct{})
		go func() {
			_, err = c.Set(t.Context(), "/a", nil, -1)
			close(waiting)
		}()
		synctest.Wait()
		f.cut()
		<-waiting
		must(t, err)
		c.Close()
	})
}

func TestAReadOnlyServerIsLeftForOneThatCanWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{readOnly: map[string]bool{"a:1": true, "b:1": true, "c:1": true}}
		c := f.start(t, func(o *Options) { o.AllowReadOnly = true })
		states := c.Subscribe()
		if first := <-states.Events(); first.State != ReadOnly {
			t.Errorf("state %v", first.State)
		}
		time.Sleep(time.Minute)
		f.mu.Lock()
		f.readOnly = map[string]bool{"a:1": true, "c:1": true}
		f.mu.Unlock()
		for event := range states.Events() {
			if event.State == Connected {
				if event.Server != "b:1" {
					t.Errorf("moved to %s", event.Server)
				}
				break
			}
		}
		c.Close()
	})
}

// TestAChangedListOfServersIsFollowed (scenario-K06).
func TestAChangedListOfServersIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := f.start(t, nil)
		id := c.SessionID()
		must(t, c.SetServers("x:1,y:1"))
		time.Sleep(time.Second)
		if server := c.Server(); server != "x:1" && server != "y:1" || c.SessionID() != id {
			t.Errorf("session %v is at %s", c.SessionID(), server)
		}
		if err := c.SetServers("x:1/other"); err == nil {
			t.Error("another chroot was taken")
		}
		c.Close()
	})
}

func TestARefusedSessionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := f.start(t, nil)
		f.mu.Lock()
		f.refuse = true
		f.mu.Unlock()
		f.cut()
		<-c.Done()
		if c.State() != Lost {
			t.Errorf("state %v", c.State())
		}
		c.Close()
	})
}

func TestDialGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{down: true}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Dial(ctx, "a:1,b:1", f.options())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "refused") {
			t.Error(err)
		}
		// Rounds of two attempts, and pauses of 1.25 to 2.5 seconds.
		if n := len(f.dials); n < 48 || n > 120 {
			t.Errorf("%d attempts in a minute", n)
		}
	})
}

func TestServersAreParsed(t *testing.T) {
	for _, test := range []struct {
		list, chroot string
		servers      []string
	}{
		{"h:1", "", []string{"h:1"}},
		{"h", "", []string{"h:2181"}},
		{" h:1 , i:2,/app/x", "/app/x", []string{"h:1", "i:2"}},
		{"h:1/", "", []string{"h:1"}},
		{"[::1]:5,[::2]", "", []string{"[::1]:5", "[::2]:2181"}},
		{"", "", nil}, {"/app", "", nil}, {"h:1/app/", "", nil}, {"h:1/a//b", "", nil}, {":1", "", nil}, {"h:", "", nil},
		{"fe80::1%eth0", "", []string{"[fe80::1%eth0]:2181"}},
		// No attempt to connect would ever succeed.
		{"zk://h:1", "", nil}, {"h:0", "", nil}, {"h:65536", "", nil}, {"h:zk", "", nil}, {"h:1?a", "", nil}, {"h:1;i:1", "", nil},
	} {
		servers, chroot, err := parseServers(test.list)
		if !slices.Equal(servers, test.servers) || err == nil && chroot != test.chroot || (err != nil) != (test.servers == nil) {
			t.Errorf("%q: got %q, %q, %v", test.list, servers, chroot, err)
		}
	}
}

func TestPathsAreMovedInAndOutOfTheChroot(t *testing.T) {
	c := &Client{chroot: "/app"}
	for inside, outside := range map[string]string{"/": "/app", "/a": "/app/a", "/a/b": "/app/a/b"} {
		if got := c.absolute(inside); got != outside {
			t.Errorf("%s is %s", inside, got)
		}
		if got := c.relative(outside); got != inside {
			t.Errorf("%s is %s", outside, got)
		}
	}
	kept := c.inChroot([]string{"/app/a", "/apple", "/app", "/b"})
	if !slices.Equal(kept, []string{"/a", "/"}) {
		t.Errorf("kept %v", kept)
	}
}

func TestNamesAreLookedUpAgainForEachRound(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	f := &fake{}
	go f.serve(listener)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	c, err := Dial(awaittest.Within(t), "no-such-host.invalid:1,localhost:"+port, Options{})
	must(t, err)
	if _, err := c.Set(awaittest.Within(t), "/a", nil, -1); err != nil {
		t.Error(err)
	}
	must(t, c.Close())
}
