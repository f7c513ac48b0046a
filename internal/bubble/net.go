package bubble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Net connects numbered machines without sockets. What is written arrives at the other end at once,
// or after the time that was given to NewNet, unless the two machines are cut from each other.
type Net struct {
	far     time.Duration // from one machine to another
	mu      sync.Mutex
	changed *sync.Cond // of open, cuts and off
	open    map[string]*port
	ends    map[*conn]struct{} // both ends of every connection
	cuts    map[[2]int]bool    // from one machine to the other
	off     map[int]bool       // machines without power
	dials   int                // so far
	last    uint16             // the last port of a dialing side
}

// NewNet returns a network on which everything takes the given time from one machine to another.
func NewNet(far time.Duration) *Net {
	n := &Net{far: far, open: map[string]*port{}, ends: map[*conn]struct{}{}, cuts: map[[2]int]bool{},
		off: map[int]bool{}, last: 10_000}
	n.changed = sync.NewCond(&n.mu)
	return n
}

// Host returns the address of a machine. Machines are numbered from 1 to 254.
func Host(machine int) string { return fmt.Sprintf("10.0.0.%d", machine) }

func machineOf(address string) int {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		panic(err)
	}
	return int(at.Addr().As4()[3])
}

// port is a listener.
type port struct {
	net     *Net
	address string
	waiting []*conn // for Accept; guarded by net.mu
	closed  bool
}

// Listen opens a port of a machine, at Host:port.
func (n *Net) Listen(_ context.Context, _, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[address] != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, syscall.EADDRINUSE)
	}
	l := &port{net: n, address: address}
	n.open[address] = l
	return l, nil
}

func (l *port) Accept() (net.Conn, error) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	for len(l.waiting) == 0 && !l.closed {
		l.net.changed.Wait()
	}
	if l.closed {
		return nil, net.ErrClosed
	}
	end := l.waiting[0]
	l.waiting = l.waiting[1:]
	return end, nil
}

func (l *port) Close() error {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	l.closed = true
	for _, end := range l.waiting {
		end.end()
	}
	if l.net.open[l.address] == l {
		delete(l.net.open, l.address)
	}
	l.net.changed.Broadcast()
	return nil
}

func (l *port) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.address))
}

// Dialer returns the dial function of one machine. Across a cut nothing answers, and it waits.
func (n *Net) Dialer(from int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		to := machineOf(address)
		defer context.AfterFunc(ctx, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.changed.Broadcast()
		})()
		if n.far > 0 { // there and back
			select {
			case <-time.After(2 * n.far):
			case <-ctx.Done():
			}
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.dials++
		for (n.cuts[[2]int{from, to}] || n.cuts[[2]int{to, from}]) && ctx.Err() == nil {
			n.changed.Wait()
		}
		l := n.open[address]
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("dial %s: %w", address, ctx.Err())
		case l == nil || n.off[from] || n.off[to]:
			return nil, fmt.Errorf("dial %s: connection refused", address)
		}
		n.last++
		near := netip.MustParseAddrPort(fmt.Sprintf("%s:%d", Host(from), n.last))
		a := &conn{net: n, local: near, remote: netip.MustParseAddrPort(address), from: from, to: to}
		a.news = sync.NewCond(&n.mu)
		b := &conn{net: n, local: a.remote, remote: near, from: to, to: from, peer: a, news: a.news}
		a.peer = b
		n.ends[a], n.ends[b] = struct{}{}, struct{}{}
		l.waiting = append(l.waiting, b)
		n.changed.Broadcast()
		return a, nil
	}
}

// Dialed returns the number of connections that were attempted so far.
func (n *Net) Dialed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

// Cut cuts or heals the path from one machine to another.
func (n *Net) Cut(from, to int, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[[2]int{from, to}] = cut
	n.tell()
}

// tell wakes everybody who waits. Called with mu held.
func (n *Net) tell() {
	n.changed.Broadcast()
	for end := range n.ends {
		end.news.Broadcast()
	}
}

// Power turns a machine on or off. While it is off, it might as well not exist, whatever still runs
// on it.
func (n *Net) Power(machine int, on bool) {
	n.mu.Lock()
	n.off[machine] = !on
	n.mu.Unlock()
	n.Reset(func(from, to int) bool { return !on && (from == machine || to == machine) })
}

// Heal ends all cuts.
func (n *Net) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	n.tell()
}

// Reset breaks the connections for which fits returns true.
func (n *Net) Reset(fits func(from, to int) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for end := range n.ends {
		if fits(end.from, end.to) {
			end.end()
		}
	}
	n.changed.Broadcast()
}

// conn is one end of a connection. All of it is guarded by net.mu.
type conn struct {
	net           *Net
	local, remote netip.AddrPort
	from, to      int
	peer          *conn
	came          []byte // ready to be read here
	coming        []flying
	written       bool // the other end writes no more
	closed        bool
	reset         bool

	news            *sync.Cond // shared by both ends
	readBy, writeBy deadline
}

// flying is what was written, and when it arrives. Without bytes, it is the end of the stream.
type flying struct {
	at    time.Time
	bytes []byte
}

// land takes in what has arrived by now. Called with net.mu held.
func (e *conn) land() {
	for len(e.coming) > 0 && !e.coming[0].at.After(time.Now()) {
		e.came = append(e.came, e.coming[0].bytes...)
		e.written = e.written || e.coming[0].bytes == nil
		e.coming = e.coming[1:]
	}
}

// deadline ends a wait, and wakes those who have to check it.
type deadline struct {
	at    time.Time
	alarm *time.Timer
}

func (d *deadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// bytesMax is the number of bytes that may be unread before a writer waits.
const bytesMax = 256 << 10

// end resets both ends, and what is on its way is lost. Called with net.mu held.
func (e *conn) end() {
	e.reset, e.peer.reset = true, true
	delete(e.net.ends, e)
	delete(e.net.ends, e.peer)
	e.news.Broadcast()
}

func (e *conn) Read(b []byte) (int, error) {
	n := e.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		e.land()
		switch {
		case e.closed:
			return 0, net.ErrClosed
		case e.readBy.over():
			return 0, os.ErrDeadlineExceeded
		case e.reset:
			return 0, errors.New("connection reset by peer")
		case n.cuts[[2]int{e.to, e.from}]:
		case len(e.came) > 0:
			had := copy(b, e.came)
			e.came = e.came[had:]
			e.news.Broadcast()
			return had, nil
		case e.written:
			return 0, io.EOF
		}
		e.news.Wait()
	}
}

func (e *conn) Write(b []byte) (int, error) {
	n := e.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		switch {
		case e.closed:
			return 0, net.ErrClosed
		case e.writeBy.over():
			return 0, os.ErrDeadlineExceeded
		case e.reset || e.peer.closed:
			return 0, errors.New("broken pipe")
		case len(e.peer.came) < bytesMax:
			e.send(bytes.Clone(b))
			return len(b), nil
		}
		e.news.Wait()
	}
}

// send sends bytes to the other end; nil is the end of the stream. Called with net.mu held.
func (e *conn) send(b []byte) {
	n := e.net
	e.peer.coming = append(e.peer.coming, flying{time.Now().Add(n.far), b})
	if n.far == 0 {
		e.news.Broadcast()
		return
	}
	time.AfterFunc(n.far, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		e.news.Broadcast()
	})
}

// Close ends the connection. The other end can still read what was written before.
func (e *conn) Close() error {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	if !e.closed {
		e.send(nil)
	}
	e.closed = true
	delete(e.net.ends, e)
	e.news.Broadcast()
	return nil
}

// CloseWrite ends the stream to the other end.
func (e *conn) CloseWrite() error {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	e.send(nil)
	return nil
}

func (e *conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(e.local) }
func (e *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(e.remote) }

func (e *conn) SetDeadline(t time.Time) error {
	return errors.Join(e.SetReadDeadline(t), e.SetWriteDeadline(t))
}

func (e *conn) SetReadDeadline(t time.Time) error { return e.until(&e.readBy, t) }

func (e *conn) SetWriteDeadline(t time.Time) error { return e.until(&e.writeBy, t) }

func (e *conn) until(d *deadline, at time.Time) error {
	n := e.net
	n.mu.Lock()
	defer n.mu.Unlock()
	d.at = at
	e.news.Broadcast()
	switch left := max(time.Until(at), 0); {
	case at.IsZero():
	case d.alarm != nil:
		d.alarm.Reset(left)
	default:
		d.alarm = time.AfterFunc(left, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			e.news.Broadcast()
		})
	}
	return nil
}
