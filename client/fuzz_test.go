package client

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// FuzzServerFrames (scenario-K08) makes a server send arbitrary bytes in place of
// replies, with or without a proper handshake before them. The client must not panic
// or hang, must not allocate memory that the bytes do not justify, and must not
// report success without a reply.
func FuzzServerFrames(f *testing.F) {
	stat := zk.Result{Op: zk.OpSetData}
	f.Add(true, wire.AppendReply(nil, wire.ReplyHeader{Xid: 1, Zxid: 5}, &stat))
	f.Add(true, wire.AppendReply(nil, wire.ReplyHeader{Xid: 2, Zxid: 5, Code: zk.ErrNoNode}, nil))
	f.Add(true, wire.AppendEvent(nil, &zk.Event{Type: zk.EventNodeDeleted, State: 3, Path: "/a"}))
	f.Add(true, []byte{0x7f, 0xff, 0xff, 0xff, 0, 0})
	f.Add(true, []byte{0, 0, 0, 3, 1, 2, 3})
	f.Add(false, []byte{0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0x89})
	f.Add(false, wire.AppendConnectResponse(nil, &wire.ConnectResponse{HasReadOnly: true}))
	f.Fuzz(func(t *testing.T, greet bool, data []byte) {
		dials := 0
		dial := func(context.Context, string, string) (net.Conn, error) {
			if dials++; dials > 1 {
				return nil, errors.New("no more")
			}
			near, far := net.Pipe()
			go babble(far, greet, data)
			return near, nil
		}
		c, err := New("a:1", Options{Dialer: dial, SessionTimeout: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		set, err := c.Submit(ctx, zk.Request{Op: zk.OpSetData, Path: "/a"})
		if err != nil {
			t.Fatal(err)
		}
		get, err := c.Submit(ctx, zk.Request{Op: zk.OpGetData, Path: "/a"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.Wait(ctx); err == nil && len(data) < wire.ReplyHeaderBytes {
			t.Error("success without a reply")
		}
		_, _ = get.Wait(ctx)
		c.Detach()
	})
}

// babble is a server that sends data, no matter what is requested.
func babble(conn net.Conn, greet bool, data []byte) {
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	if greet {
		hello := wire.ConnectResponse{TimeoutMs: 200, Session: 1, HasReadOnly: true}
		if _, err := conn.Write(wire.AppendConnectResponse(nil, &hello)); err != nil {
			return
		}
	}
	_, _ = conn.Write(data)
}

func TestALengthAloneTakesNoMemory(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		_, _ = far.Write([]byte{0x00, 0xff, 0xff, 0xff, 1, 2, 3})
		_ = far.Close()
	}()
	o := Options{}.withDefaults()
	l := &link{c: &Client{options: o, clock: o.Clock}, socket: near}
	if err := l.read(); !errors.Is(err, io.EOF) || len(l.buffer) > readBufferBytes {
		t.Errorf("%v with a buffer of %d bytes", err, len(l.buffer))
	}
}
