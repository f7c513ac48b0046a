//go:build linux

package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

const (
	// replyWithin limits the wait for one frame. A slower server counts as silent.
	replyWithin = 10 * time.Second

	// framesMax limits the frames that wait to be processed on a connection.
	framesMax = 1 << 16
)

var (
	errEnd     = errors.New("closed by the server")
	errSilence = errors.New("no answer")
)

// A conn is one connection to a server, with a goroutine that reads frames until the end.
// Everything else belongs to the runner.
type conn struct {
	net     net.Conn
	frames  chan []byte // closed at the end of the stream
	server  int         // the script's index of the server
	session int         // the script's number of the session, -1 for the observer
	seen    zk.Zxid     // largest zxid in a reply
}

// dial connects, with TLS unless shows is nil, and sends first: the bytes of a handshake
// and perhaps more.
func dial(addr string, shows *tls.Config, first []byte) (*conn, error) {
	n, err := net.DialTimeout("tcp", addr, replyWithin)
	if err != nil {
		return nil, fmt.Errorf("diff: connect: %w", err)
	}
	if shows != nil {
		n = tls.Client(n, shows)
	}
	if _, err := n.Write(first); err != nil {
		n.Close()
		return nil, fmt.Errorf("diff: handshake: %w", err)
	}
	c := &conn{net: n, frames: make(chan []byte, framesMax)}
	go c.read()
	return c, nil
}

// read passes frames on until the stream ends or is not a stream of frames. It returns when
// either side closes the connection.
func (c *conn) read() {
	defer close(c.frames)
	r := bufio.NewReaderSize(c.net, 1<<16)
	var prefix [wire.PrefixBytes]byte
	for {
		if _, err := io.ReadFull(r, prefix[:]); err != nil {
			return
		}
		n, err := wire.FrameLength(prefix[:], 64<<20)
		if err != nil {
			return
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(r, frame); err != nil {
			return
		}
		c.frames <- frame
	}
}

// next returns the next frame, errEnd or errSilence.
func (c *conn) next(within time.Duration) ([]byte, error) {
	select { // the common case needs no timer
	case frame, ok := <-c.frames:
		return frame, endUnless(ok)
	default:
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case frame, ok := <-c.frames:
		return frame, endUnless(ok)
	case <-timer.C:
		return nil, errSilence
	}
}

func endUnless(ok bool) error {
	if ok {
		return nil
	}
	return errEnd
}

// close ends the connection from this side.
func (c *conn) close() {
	c.net.Close()
	for range c.frames { // wait until the reader has ended
	}
}
