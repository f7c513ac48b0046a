package client

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// toldOf stores events as text, without what the clock and the server choose.
type toldOf struct {
	mu    sync.Mutex
	lines []string
}

func (h *toldOf) onEvent(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := e.Kind.String()
	switch e.Kind {
	case EventState:
		line += " " + e.State.String()
	case EventConnect:
		line += fmt.Sprintf(" in %v", e.Duration)
	case EventRequest:
		line += fmt.Sprintf(" %v %s in %v, %d tries, reply %t", e.Op, e.Path, e.Duration, e.Tries, e.ReplyBytes > 0)
	}
	if e.Err != nil {
		line += ", error"
	}
	h.lines = append(h.lines, line)
}

func (h *toldOf) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(h.lines, "\n")
	h.lines = nil
	return text
}

// TestEventsTellOfStatesAttemptsAndRequests follows one session.
func TestEventsTellOfStatesAttemptsAndRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &toldOf{}
		f := &fake{timeoutMs: 60_000, script: func(conn *fakeConn, r *zk.Request) bool {
			if r.Op == zk.OpGetData {
				time.Sleep(30 * time.Millisecond)
			}
			return false
		}}
		c := f.start(t, func(o *Options) { o.OnEvent = h.onEvent })
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := h.take(); got != strings.Join(want, "\n") {
				t.Errorf("%s:\n%s\nwant\n%s", when, got, strings.Join(want, "\n"))
			}
		}
		expect("at first", "connect in 0s", "state connected")
		_, _, err := c.Get(t.Context(), "/a")
		must(t, err)
		expect("a read", "request getData /a in 30ms, 1 tries, reply true")
		future, err := c.Submit(t.Context(), zk.Request{Op: zk.OpSetData, Path: "/b", Version: -1})
		must(t, err)
		expect("a future that nobody waits for")
		_, err = future.Wait(t.Context())
		must(t, err)
		expect("a future", "request setData /b in 0s, 1 tries, reply true")

		f.setDown(true)
		synctest.Wait()
		if got := h.take(); !strings.HasPrefix(got, "state suspended, error") {
			t.Errorf("a lost connection: %s", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := h.take(); !strings.Contains(got, "connect in 0s, error") {
			t.Errorf("without a server: %s", got)
		}
		_, _, err = c.Get(WithRetryFor(t.Context(), RetryNever), "/a")
		wantCode(t, err, zk.ErrConnectionLoss)
		expect("a refused read", "request getData /a in 0s, 0 tries, reply false, error")
		c.Detach()
		if got := h.take(); got != "state closed, error" {
			t.Errorf("at the end: %s", got)
		}
	})
}

// TestASlowOnEventHoldsUpNoSession: the events that it has missed are counted, and the
// newest state is reported.
func TestASlowOnEventHoldsUpNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := make(chan struct{})
		var last Event
		told, missed := 0, 0
		f := &fake{timeoutMs: 60_000}
		c := f.start(t, func(o *Options) {
			o.OnEvent = func(e Event) {
				<-wait
				told, missed, last = told+1, missed+e.Missed, e
			}
		})
		const cuts = 150 // each an attempt and two states, or more
		for range cuts {
			f.cut()
			synctest.Wait()
			must(t, c.WaitConnected(t.Context()))
		}
		close(wait)
		must(t, c.Close())
		if told+missed < 3*cuts+2 || missed == 0 || told > untoldMax+10 || last.State != Closed {
			t.Errorf("%d told, %d missed, the last %v", told, missed, last)
		}
	})
}

// TestEventsAreLogged, each at its level.
func TestEventsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		f := &fake{timeoutMs: 60_000}
		var next atomic.Int64 // requests have a goroutine of their own
		logger := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c := f.start(t, func(o *Options) { o.OnEvent = LogEvents(logger, func(Event) { next.Add(1) }) })
		synctest.Wait()
		_, err := c.Set(t.Context(), "/a", []byte("data"), -1)
		must(t, err)
		f.setDown(true)
		synctest.Wait()
		c.Detach()
		synctest.Wait()
		for _, want := range []string{
			`level=DEBUG msg="client connect" server=`,
			`level=INFO msg="client state" state=connected session=0x77 server=`,
			`level=DEBUG msg="client request" op=setData path=/a duration=0s tries=1 request_bytes=39 reply_bytes=`,
			`level=WARN msg="client state" state=suspended session=0x77 server="" error=`,
			`level=INFO msg="client state" state=closed`,
		} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %s in\n%s", want, text.String())
			}
		}
		if lines := strings.Count(text.String(), "\n"); int(next.Load()) != lines {
			t.Errorf("%d events were passed on, %d logged", next.Load(), lines)
		}
	})
}

// TestNothingIsToldAfterClose, not even about a request that ends then: a test's log, for
// example, may be gone.
func TestNothingIsToldAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		var late atomic.Int64
		f := &fake{timeoutMs: 60_000}
		c := f.start(t, func(o *Options) {
			o.OnEvent = func(Event) {
				if closed.Load() {
					late.Add(1)
				}
			}
		})
		must(t, c.Close())
		closed.Store(true)
		_, _, err := c.Get(t.Context(), "/a")
		wantCode(t, err, zk.ErrClosing)
		synctest.Wait()
		if n := late.Load(); n > 0 {
			t.Errorf("OnEvent was called %d times after Close had returned", n)
		}
	})
}
