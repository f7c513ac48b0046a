package server

import (
	"bytes"
	"context"
	"runtime"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Without a poller, a new goroutine waits after the handshake and after each heartbeat: it has
// the smallest stack, whatever stack requests have needed. A request alone starts none.
func TestIdleConnectionsWaitInNewGoroutines(t *testing.T) {
	const conns = 20
	s := start(t, vfs.NewMem(), nil)
	awaittest.Until(t, "it serves", s.Serves)
	s.poller.close()
	waiting := func() int {
		all := make([]byte, 4<<20)
		return bytes.Count(all[:runtime.Stack(all, true)], []byte("server.(*input).await("))
	}
	var all []*peer
	for range conns {
		all = append(all, dial(t, s, nil))
	}
	awaittest.Until(t, "all wait after the handshake", func() bool { return waiting() == conns })
	for _, p := range all {
		p.must(zk.OK, zk.Request{Op: zk.OpGetChildren, Path: "/"})
	}
	if n := waiting(); n != 0 {
		t.Errorf("%d of %d connections are idle after a request", n, conns)
	}
	for _, p := range all {
		p.must(zk.OK, zk.Request{Op: zk.OpPing})
	}
	awaittest.Until(t, "all wait after a heartbeat", func() bool { return waiting() == conns })
	for _, p := range all {
		p.must(zk.OK, zk.Request{Op: zk.OpExists, Path: "/"})
	}
}

// The loop may answer between the check whether it has and the wait for the answer. Nothing is
// kept for that wait while a connection is idle.
func TestAnswerJustBeforeTheWaitIsNotMissed(t *testing.T) {
	s := &Server{}
	s.done, s.stop = context.WithCancelCause(awaittest.Within(t))
	c := &conn{server: s}
	for range 3 {
		c.resume()
		if !c.await() {
			t.Fatal("it waits in vain")
		}
		c.leaveWork()
	}
}
