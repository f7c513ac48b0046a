package tap

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Tap is a proxy in front of one server. Close ends it.
type Tap struct {
	// Addr is the address for clients.
	Addr string

	to       string
	protocol Protocol
	listener net.Listener
	group    sync.WaitGroup

	requests, heartbeats atomic.Int64

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	failed error // error of the first connection with a different protocol
}

// New opens a tap in front of a server.
func New(to string, protocol Protocol) (*Tap, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &Tap{Addr: listener.Addr().String(), to: to, protocol: protocol, listener: listener, conns: map[net.Conn]bool{}}
	t.group.Go(t.accept)
	return t, nil
}

// Counts returns the number of requests and heartbeats so far, and the first error other
// than the end of a connection.
func (t *Tap) Counts() (requests, heartbeats int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requests.Load(), t.heartbeats.Load(), t.failed
}

// Close ends all connections.
func (t *Tap) Close() {
	t.mu.Lock()
	t.closed = true
	_ = t.listener.Close()
	for c := range t.conns {
		_ = c.Close()
	}
	t.mu.Unlock()
	t.group.Wait()
}

func (t *Tap) accept() {
	for {
		client, err := t.listener.Accept()
		if err != nil {
			return // closed
		}
		t.group.Go(func() { t.serve(client) })
	}
}

// keep records a connection, and returns false after Close.
func (t *Tap) keep(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[c] = true
	return !t.closed
}

func (t *Tap) drop(c net.Conn) {
	_ = c.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
}

func (t *Tap) serve(client net.Conn) {
	defer t.drop(client)
	if !t.keep(client) {
		return
	}
	server, err := net.Dial("tcp", t.to)
	if err != nil {
		return // the client sees the end of its connection
	}
	defer t.drop(server)
	if !t.keep(server) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	t.forward(client, server)
	_ = server.Close()
	back.Wait()
}

// forward forwards a client's bytes frame by frame.
func (t *Tap) forward(client, server net.Conn) {
	in, out, split := bufio.NewReaderSize(client, 16<<10), bufio.NewWriter(server), t.protocol()
	for {
		frame, kind, err := split(in)
		if err != nil {
			t.note(err)
			return
		}
		switch kind {
		case Request:
			t.requests.Add(1)
		case Heartbeat:
			t.heartbeats.Add(1)
		}
		if _, err := out.Write(frame); err != nil {
			return
		}
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

// note keeps the first error other than the end of a connection.
func (t *Tap) note(err error) {
	if ended(err) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = err
	}
}

// ended reports whether an error only means that a connection has ended.
func ended(err error) bool {
	var broken *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &broken)
}
