package inprocess

import (
	"net"
	"sync"
)

// port is a listener that stays open while servers come and go, so no other process gets
// the port. While no server uses it, connections are closed at once.
type port struct {
	base net.Listener

	mu      sync.Mutex
	current *lease
}

func newPort(base net.Listener) *port {
	p := &port{base: base}
	go p.run()
	return p
}

func (p *port) run() {
	for {
		conn, err := p.base.Accept()
		if err != nil {
			return // closed
		}
		p.mu.Lock()
		l := p.current
		p.mu.Unlock()
		if l == nil || !l.hand(conn) {
			conn.Close()
		}
	}
}

// addr returns the address of the port.
func (p *port) addr() string { return p.base.Addr().String() }

func (p *port) close() { p.base.Close() }

// lend gives the port to a server until the server closes it.
func (p *port) lend() net.Listener {
	l := &lease{port: p, conns: make(chan net.Conn), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = l
	return l
}

// lease is a port that a server uses.
type lease struct {
	port  *port
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *lease) hand(conn net.Conn) bool {
	select {
	case l.conns <- conn:
		return true
	case <-l.done:
		return false
	}
}

func (l *lease) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *lease) Addr() net.Addr { return l.port.base.Addr() }

func (l *lease) Close() error {
	l.once.Do(func() {
		l.port.mu.Lock()
		if l.port.current == l {
			l.port.current = nil
		}
		l.port.mu.Unlock()
		close(l.done)
	})
	return nil
}
