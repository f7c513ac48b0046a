package client

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// fake is a server that a test controls: it does the handshake, answers pings, and answers
// every request with success, unless script does something else. Its connections are pipes,
// so a test can run in a synctest bubble, in virtual time.
type fake struct {
	timeoutMs int32
	readOnly  map[string]bool // by address
	down      bool            // refuses connections
	refuse    bool            // refuses sessions
	script    func(*fakeConn, *zk.Request) (handled bool)

	mu       sync.Mutex
	dials    []string
	requests []zk.Request // all but pings
	pings    int
	zxid     zk.Zxid
	open     map[*fakeConn]bool
}

type fakeConn struct {
	*fake
	net.Conn
	address string
	hello   wire.ConnectRequest
}

// options dials the fake, and reads time from Go, whose clock a bubble fakes.
func (f *fake) options() Options {
	return Options{Dialer: f.dial, Clock: goClock{time.Now()}, Seed: 1}
}

func (f *fake) dial(_ context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials = append(f.dials, address)
	if f.down {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	if f.open == nil {
		f.open = map[*fakeConn]bool{}
	}
	conn := &fakeConn{fake: f, Conn: far, address: address}
	f.open[conn] = true
	go conn.serve()
	return near, nil
}

// cut closes all connections.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.open {
		_ = conn.Close()
	}
}

func (f *fake) setDown(down bool) {
	f.mu.Lock()
	f.down = down
	f.mu.Unlock()
	if down {
		f.cut()
	}
}

func (f *fake) isReadOnly(address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readOnly[address]
}

func (f *fakeConn) readFrame() ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(f, prefix[:]); err != nil {
		return nil, err
	}
	if string(prefix[:]) == "isro" {
		answer := "rw"
		if f.isReadOnly(f.address) {
			answer = "ro"
		}
		_, _ = io.WriteString(f, answer)
		return nil, io.EOF
	}
	payload := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	_, err := io.ReadFull(f, payload)
	return payload, err
}

// serve answers on the connections that arrive, until the listener is closed.
func (f *fake) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go (&fakeConn{fake: f, Conn: conn}).serve()
	}
}

func (f *fakeConn) serve() {
	defer func() {
		f.mu.Lock()
		delete(f.open, f)
		f.mu.Unlock()
		_ = f.Close()
	}()
	payload, err := f.readFrame()
	if err != nil {
		return
	}
	if f.hello, err = wire.DecodeConnectRequest(payload); err != nil || !f.greet() {
		return
	}
	for {
		payload, err := f.readFrame()
		if err != nil {
			return
		}
		var r zk.Request
		if err := wire.DecodeRequest(payload, len(payload), &r); err != nil {
			return
		}
		if !f.take(&r) {
			return
		}
	}
}

func (f *fakeConn) greet() bool {
	r := wire.ConnectResponse{TimeoutMs: f.timeoutMs, Session: f.hello.Session, HasReadOnly: true}
	if r.TimeoutMs == 0 {
		r.TimeoutMs = f.hello.TimeoutMs
	}
	r.ReadOnly = f.isReadOnly(f.address)
	if r.Session == 0 {
		r.Session = 0x77
	}
	f.mu.Lock()
	if f.refuse {
		r = wire.ConnectResponse{HasReadOnly: true}
	}
	f.mu.Unlock()
	_, err := f.Write(wire.AppendConnectResponse(nil, &r))
	return err == nil
}

func (f *fakeConn) take(r *zk.Request) bool {
	f.mu.Lock()
	if r.Op == zk.OpPing {
		f.pings++
	} else {
		f.requests = append(f.requests, *r)
	}
	if r.Op.IsWrite() {
		f.zxid++
	}
	f.mu.Unlock()
	if f.script != nil && f.script(f, r) {
		return true
	}
	f.reply(r, zk.OK)
	return r.Op != zk.OpCloseSession
}

// reply answers with success: the path as data.
func (f *fakeConn) reply(r *zk.Request, code zk.Code) {
	f.mu.Lock()
	zxid := f.zxid
	f.mu.Unlock()
	result := zk.Result{Op: r.Op, Path: r.Path, Data: []byte(r.Path)}
	_, _ = f.Write(wire.AppendReply(nil, wire.ReplyHeader{Xid: r.Xid, Zxid: zxid, Code: code}, &result))
}

func (f *fakeConn) notify(kind zk.EventType, path string) {
	_, _ = f.Write(wire.AppendEvent(nil, &zk.Event{Type: kind, State: zk.StateSyncConnected, Path: path}))
}

// seen returns how many requests of an operation came.
func (f *fake) seen(op zk.Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for i := range f.requests {
		if f.requests[i].Op == op {
			n++
		}
	}
	return n
}

// goClock is Go's own clock as a clock.Clock.
type goClock struct{ start time.Time }

func (c goClock) Now() clock.Instant { return clock.Instant(time.Since(c.start)) }

func (c goClock) Timer(at clock.Instant) clock.Timer {
	fired := make(chan struct{})
	return goTimer{time.AfterFunc(at.Sub(c.Now()), func() { close(fired) }), fired}
}

type goTimer struct {
	timer *time.Timer
	fired chan struct{}
}

func (t goTimer) C() <-chan struct{} { return t.fired }
func (t goTimer) Stop()              { t.timer.Stop() }

// start opens a client on the fake, connected. In a bubble, all of its
// goroutines must be gone at the end, or the test fails.
func (f *fake) start(t *testing.T, o func(*Options)) *Client {
	t.Helper()
	options := f.options()
	if o != nil {
		o(&options)
	}
	c, err := Dial(t.Context(), "a:1,b:1,c:1", options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// inBubble runs a test in virtual time.
func inBubble(name string, t *testing.T, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}
