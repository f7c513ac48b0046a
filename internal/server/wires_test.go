package server

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

	"github.com/conclave-project/conclave/clock"
)

// bubbleClock is the clock of a synctest bubble.
type bubbleClock struct{ began time.Time }

func (b bubbleClock) Now() clock.Instant { return clock.Instant(time.Since(b.began)) + 1 }

func (b bubbleClock) Timer(at clock.Instant) clock.Timer {
	t := &bubbleTimer{fired: make(chan struct{})}
	t.timer = time.AfterFunc(at.Sub(b.Now()), func() { close(t.fired) })
	return t
}

type bubbleTimer struct {
	timer *time.Timer
	fired chan struct{}
}

func (t *bubbleTimer) C() <-chan struct{} { return t.fired }

func (t *bubbleTimer) Stop() { t.timer.Stop() }

// wires connect machines that have an address each, without a socket: what is written is at
// the other end at once, unless the two are cut. All of it blocks as a bubble wants it.
type wires struct {
	mu      sync.Mutex
	changed *sync.Cond // ports and cuts
	open    map[string]*wiredPort
	ends    map[*wireEnd]struct{} // of both sides
	cuts    map[[2]int]bool       // from one to the other
	off     map[int]bool          // machines without power
	far     time.Duration         // from one machine to another
	dials   int                   // so far
	last    uint16                // port of a side that dials
}

func newWires() *wires {
	n := &wires{open: map[string]*wiredPort{}, ends: map[*wireEnd]struct{}{}, cuts: map[[2]int]bool{}, off: map[int]bool{}, last: 10_000}
	n.changed = sync.NewCond(&n.mu)
	return n
}

func machineHost(machine int) string { return fmt.Sprintf("10.0.0.%d", machine) }

func machineOf(address string) int {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		panic(err)
	}
	return int(at.Addr().As4()[3])
}

// wiredPort is a listener.
type wiredPort struct {
	net     *wires
	address string
	waiting []*wireEnd // for Accept; guarded by net.mu
	closed  bool
}

func (n *wires) listen(_ context.Context, _, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[address] != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, syscall.EADDRINUSE)
	}
	l := &wiredPort{net: n, address: address}
	n.open[address] = l
	return l, nil
}

func (l *wiredPort) Accept() (net.Conn, error) {
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

func (l *wiredPort) Close() error {
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

func (l *wiredPort) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.address))
}

// dialer dials for one machine. Behind a cut nothing answers.
func (n *wires) dialer(from int) func(context.Context, string, string) (net.Conn, error) {
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
		near := netip.MustParseAddrPort(fmt.Sprintf("%s:%d", machineHost(from), n.last))
		a := &wireEnd{net: n, local: near, remote: netip.MustParseAddrPort(address), from: from, to: to}
		a.news = sync.NewCond(&n.mu)
		b := &wireEnd{net: n, local: a.remote, remote: near, from: to, to: from, peer: a, news: a.news}
		a.peer = b
		n.ends[a], n.ends[b] = struct{}{}, struct{}{}
		l.waiting = append(l.waiting, b)
		n.changed.Broadcast()
		return a, nil
	}
}

// dialed is how many connections were asked for so far.
func (n *wires) dialed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

// set cuts or heals the way from one machine to another.
func (n *wires) set(from, to int, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[[2]int{from, to}] = cut
	n.tell()
}

// tell wakes all that waits. Called with mu held.
func (n *wires) tell() {
	n.changed.Broadcast()
	for end := range n.ends {
		end.news.Broadcast()
	}
}

// power turns a machine on, or off: then it is as if it were not there, whatever still runs on it.
func (n *wires) power(machine int, on bool) {
	n.mu.Lock()
	n.off[machine] = !on
	n.mu.Unlock()
	n.reset(func(from, to int) bool { return !on && (from == machine || to == machine) })
}

func (n *wires) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	n.tell()
}

// reset ends the connections that fit.
func (n *wires) reset(fits func(from, to int) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for end := range n.ends {
		if fits(end.from, end.to) {
			end.end()
		}
	}
	n.changed.Broadcast()
}

// wireEnd is one end of a connection. Everything of it is guarded by net.mu.
type wireEnd struct {
	net           *wires
	local, remote netip.AddrPort
	from, to      int
	peer          *wireEnd
	came          []byte // to be read here
	coming        []flying
	written       bool // the other end writes no more
	closed        bool
	reset         bool

	news            *sync.Cond // of both ends
	readBy, writeBy deadline
}

// flying is what was written, and when it comes; without bytes it is the end.
type flying struct {
	at    time.Time
	bytes []byte
}

// land takes in what has come by now. Called with net.mu held.
func (e *wireEnd) land() {
	for len(e.coming) > 0 && !e.coming[0].at.After(time.Now()) {
		e.came = append(e.came, e.coming[0].bytes...)
		e.written = e.written || e.coming[0].bytes == nil
		e.coming = e.coming[1:]
	}
}

// deadline ends a wait, and wakes those who have to look at it.
type deadline struct {
	at    time.Time
	alarm *time.Timer
}

func (d *deadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// wireBytesMax is how much is on its way before a writer waits.
const wireBytesMax = 256 << 10

// end ends both ends, and what is on its way is lost. Called with net.mu held.
func (e *wireEnd) end() {
	e.reset, e.peer.reset = true, true
	delete(e.net.ends, e)
	delete(e.net.ends, e.peer)
	e.news.Broadcast()
}

func (e *wireEnd) Read(b []byte) (int, error) {
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

func (e *wireEnd) Write(b []byte) (int, error) {
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
		case len(e.peer.came) < wireBytesMax:
			e.send(bytes.Clone(b))
			return len(b), nil
		}
		e.news.Wait()
	}
}

// send has bytes come to the other end, nil for the end. Called with net.mu held.
func (e *wireEnd) send(b []byte) {
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

// Close ends the connection. The other end reads what was written before.
func (e *wireEnd) Close() error {
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

// CloseWrite lets the other end read the end.
func (e *wireEnd) CloseWrite() error {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	e.send(nil)
	return nil
}

func (e *wireEnd) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(e.local) }
func (e *wireEnd) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(e.remote) }

func (e *wireEnd) SetDeadline(t time.Time) error {
	return errors.Join(e.SetReadDeadline(t), e.SetWriteDeadline(t))
}

func (e *wireEnd) SetReadDeadline(t time.Time) error { return e.until(&e.readBy, t) }

func (e *wireEnd) SetWriteDeadline(t time.Time) error { return e.until(&e.writeBy, t) }

func (e *wireEnd) until(d *deadline, at time.Time) error {
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
