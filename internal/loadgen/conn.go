package loadgen

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

const (
	// sessionTimeoutMs is the requested timeout; servers limit it. A connection under load
	// needs no pings.
	sessionTimeoutMs = 30_000

	// readBytes is the size of a connection's first read buffer.
	readBytes = 1 << 16

	// replyBytesMax is the longest reply that is accepted.
	replyBytesMax = 64 << 20
)

// A conn is one session. It is used by one goroutine.
type conn struct {
	net  net.Conn
	in   []byte // read buffer; bytes between from and to are not parsed yet
	from int
	to   int
	out  []byte
	xid  zk.Xid
	stop func() bool // stops watching the context
}

// dial opens a connection to one of the servers, and a session. The connection is closed
// when ctx ends.
func (o *Options) dial(ctx context.Context, addr string) (*conn, error) {
	open := o.Dial
	if open == nil {
		open = new(net.Dialer).DialContext
	}
	n, err := open(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("loadgen: connect: %w", err)
	}
	c := &conn{net: n, in: make([]byte, readBytes)}
	c.stop = context.AfterFunc(ctx, func() { n.Close() })
	request := wire.ConnectRequest{TimeoutMs: sessionTimeoutMs, Password: make([]byte, zk.PasswordBytes), HasReadOnly: true}
	if _, err := n.Write(wire.AppendConnectRequest(nil, &request)); err != nil {
		c.close()
		return nil, fmt.Errorf("loadgen: handshake with %s: %w", addr, err)
	}
	frame, err := c.frame()
	if err != nil {
		c.close()
		return nil, fmt.Errorf("loadgen: handshake with %s: %w", addr, err)
	}
	response, err := wire.DecodeConnectResponse(frame)
	if err == nil && response.Session == 0 {
		err = fmt.Errorf("the session was refused")
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("loadgen: handshake with %s: %w", addr, err)
	}
	return c, nil
}

// close closes the connection; the session expires by itself.
func (c *conn) close() {
	c.stop()
	c.net.Close()
}

// end closes the session, so the server need not wait for its timeout.
func (c *conn) end() {
	// On an error the session expires by itself.
	_, _ = c.call(&zk.Request{Op: zk.OpCloseSession})
	c.close()
}

// parsed returns the next frame in the buffer, nil if it is incomplete.
func (c *conn) parsed() ([]byte, error) {
	if c.to-c.from < wire.PrefixBytes {
		return nil, nil
	}
	n, err := wire.FrameLength(c.in[c.from:], replyBytesMax)
	if err != nil {
		return nil, err
	}
	end := c.from + wire.PrefixBytes + n
	if end > c.to {
		c.space(wire.PrefixBytes + n)
		return nil, nil
	}
	frame := c.in[c.from+wire.PrefixBytes : end]
	c.from = end
	return frame, nil
}

// space makes the buffer large enough for a frame of n bytes with its prefix.
func (c *conn) space(n int) {
	if n > len(c.in) {
		c.in = append(c.in, make([]byte, n-len(c.in))...)
	}
}

// fill reads what has arrived, at least one byte.
func (c *conn) fill() error {
	if c.from > 0 {
		c.to = copy(c.in, c.in[c.from:c.to])
		c.from = 0
	}
	n, err := c.net.Read(c.in[c.to:])
	c.to += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// frame waits for the next frame. It is valid until the next read.
func (c *conn) frame() ([]byte, error) {
	for {
		frame, err := c.parsed()
		if frame != nil || err != nil {
			return frame, err
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// call sends one request and waits for its reply.
func (c *conn) call(r *zk.Request) (zk.Result, error) {
	c.xid++
	r.Xid = c.xid
	c.out = wire.AppendRequest(c.out[:0], r)
	if _, err := c.net.Write(c.out); err != nil {
		return zk.Result{}, err
	}
	frame, err := c.frame()
	if err != nil {
		return zk.Result{}, err
	}
	h, body, err := wire.DecodeReplyHeader(frame)
	if err != nil {
		return zk.Result{}, err
	}
	if h.Code != zk.OK {
		return zk.Result{}, fmt.Errorf("%s %s: %w", r.Op, r.Path, h.Code)
	}
	return wire.DecodeResult(r.Op, len(r.Ops), body)
}

// replyCode returns the code of a reply.
func replyCode(frame []byte) (zk.Code, error) {
	if len(frame) < wire.ReplyHeaderBytes {
		return 0, fmt.Errorf("loadgen: reply of %d bytes", len(frame))
	}
	return zk.Code(binary.BigEndian.Uint32(frame[12:])), nil
}

// A window is the result of pump.
type window struct {
	latencies Histogram
	refused   int64
	code      zk.Code // of the first refusal
}

// pump keeps inFlight requests in flight until more returns 0, then waits for the remaining
// replies. Before every batch, it calls more with the largest possible size, and more
// returns how many requests to send. next writes one request.
func (c *conn) pump(inFlight int, more func(n int) int, next func(b []byte, xid zk.Xid) []byte) (window, error) {
	var w window
	sent := make([]time.Time, 0, inFlight) // a ring buffer, oldest at head
	sent = sent[:inFlight]
	head, flying, free := 0, 0, inFlight
	for {
		if n := more(free); n > 0 {
			c.out = c.out[:0]
			for range n {
				c.xid++
				c.out = next(c.out, c.xid)
			}
			now := time.Now()
			for i := range n {
				sent[(head+flying+i)%inFlight] = now
			}
			if _, err := c.net.Write(c.out); err != nil {
				return w, err
			}
			flying += n
		}
		if flying == 0 {
			return w, nil
		}
		n, err := c.replies(&w, sent, head, flying)
		if err != nil {
			return w, err
		}
		head = (head + n) % inFlight
		flying -= n
		free = inFlight - flying
	}
}

// replies waits for at least one reply and processes all that have arrived.
func (c *conn) replies(w *window, sent []time.Time, head, flying int) (int, error) {
	n := 0
	var now time.Time
	for {
		frame, err := c.parsed()
		switch {
		case err != nil:
			return n, err
		case frame == nil && n > 0:
			return n, nil
		case frame == nil:
			if err := c.fill(); err != nil {
				return n, err
			}
			now = time.Now()
			continue
		case n == flying:
			return n, fmt.Errorf("loadgen: a reply nobody asked for")
		}
		code, err := replyCode(frame)
		if err != nil {
			return n, err
		}
		if code != zk.OK {
			if w.refused++; w.code == zk.OK {
				w.code = code
			}
		}
		if now.IsZero() { // it had arrived with an earlier read
			now = time.Now()
		}
		w.latencies.Add(now.Sub(sent[(head+n)%len(sent)]), 1)
		n++
	}
}
