package client

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// slowClose is a socket that keeps accepting bytes until the test lets it close, like a TLS
// connection that writes an alert first.
type slowClose struct {
	net.Conn
	let <-chan struct{}
}

func (s slowClose) Close() error {
	<-s.let
	return s.Conn.Close()
}

// TestWriteThatWasNotAppliedIsNotSent ends a connection after a request was queued and
// before the writer takes it.
func TestWriteThatWasNotAppliedIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, let := &fake{}, make(chan struct{})
		o := f.options()
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := f.dial(ctx, network, address)
			return slowClose{conn, let}, err
		}
		c, err := Dial(t.Context(), "a:1", o)
		must(t, err)
		synctest.Wait()
		call := c.newCall(&zk.Request{Op: zk.OpSetData, Path: "/a", Version: -1}, nil)
		c.mu.Lock()
		c.step(clientsession.Event{Kind: clientsession.Submit, Call: &call.Call})
		c.step(clientsession.Event{Kind: clientsession.Resolved, Addresses: []string{"b:1"}, Found: true})
		c.mu.Unlock()
		err = call.wait(t.Context(), c, nil)
		if !errors.Is(err, zk.ErrConnectionLoss) || call.outcome != NotApplied {
			t.Errorf("the write ended with %v, %v", err, call.outcome)
		}
		synctest.Wait()
		if sent := f.seen(zk.OpSetData); sent != 0 {
			t.Errorf("the server was sent %d writes that are said not to be applied", sent)
		}
		close(let)
		must(t, c.WaitConnected(t.Context()))
		must(t, c.Close())
	})
}

// TestNoCallOutlivesTheSession fills the buffer of a server that has stopped reading. A
// call that then waits for space, and a later call, must end with the session.
func TestNoCallOutlivesTheSession(t *testing.T) {
	for _, way := range []struct {
		name string
		end  func(c *Client, refuse func())
		want zk.Code
	}{
		{"detached", func(c *Client, _ func()) { c.Detach() }, zk.ErrClosing},
		{"closed", func(c *Client, _ func()) { _ = c.Close() }, zk.ErrClosing},
		{"credential refused", func(_ *Client, refuse func()) { refuse() }, zk.ErrAuthFailed},
	} {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { noCallOutlives(t, way.end, way.want) })
		})
	}
}

func noCallOutlives(t *testing.T, end func(c *Client, refuse func()), want zk.Code) {
	stuck := make(chan struct{})
	var refuse func()
	f := &fake{script: func(conn *fakeConn, r *zk.Request) bool {
		switch r.Op {
		case zk.OpAuth:
			asked := *r
			refuse = func() { conn.reply(&asked, zk.ErrAuthFailed) }
			return true
		case zk.OpSetData:
			<-stuck
		}
		return false
	}}
	c := f.start(t, nil)
	ended := make(chan error, 14)
	try := func(call func() error) {
		go func() { ended <- call() }()
		synctest.Wait()
	}
	try(func() error { return c.AddAuth(t.Context(), "digest", []byte("a:b")) })
	big := make([]byte, 1_000_000)
	for range 12 {
		try(func() error { _, err := c.Set(t.Context(), "/a", big, -1); return err })
	}
	try(func() error { _, _, err := c.Get(t.Context(), "/b"); return err })
	if c.mu.Lock(); !c.full() {
		t.Error("there is space")
	}
	c.mu.Unlock()
	end(c, refuse)
	for range cap(ended) {
		if err := <-ended; !errors.Is(err, want) {
			t.Errorf("a call ended with %v", err)
		}
	}
	close(stuck)
	_, _, err := c.Get(t.Context(), "/c")
	wantCode(t, err, want)
}
