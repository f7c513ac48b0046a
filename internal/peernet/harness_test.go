package peernet

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/peerwire"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get receives a value that must come on a channel.
func get[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("in vain waited for %s", what)
		panic("not reached")
	}
}

// none checks that nothing comes on a channel for a while.
func none[T any](t testing.TB, what string, c <-chan T) {
	t.Helper()
	select {
	case v := <-c:
		t.Fatalf("%s: %v", what, v)
	case <-time.After(30 * time.Millisecond):
	}
}

// leavesNothing checks at the end of the test that no goroutine of this package
// is left (peernet-N6).
func leavesNothing(t testing.TB) {
	t.Cleanup(func() {
		var left string
		defer func() {
			if left != "" {
				t.Logf("goroutines are left:\n%s", left)
			}
		}()
		awaittest.Until(t, "no goroutine is left", func() bool {
			left = goroutines()
			return left == ""
		})
	})
}

// goroutines returns the stacks of the package's goroutines, without those of the tests.
func goroutines() string {
	all := make([]byte, 1<<20)
	var left []string
	for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if strings.Contains(stack, "internal/peernet.") && !strings.Contains(stack, "testing.") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func addressOf(l net.Listener) peerwire.Address {
	a := l.Addr().(*net.TCPAddr)
	return peerwire.Address{Host: a.IP.String(), Port: uint16(a.Port)}
}

// nobody is an address where nobody listens: a port that only root may open.
var nobody = peerwire.Address{Host: "127.0.0.1", Port: 1}

// switchboard maps the names of servers to their current addresses. A server
// that stops and starts may not get its port again: another process may have
// taken it.
type switchboard struct {
	mu    sync.Mutex
	lines map[string]string // by host:port
	tried chan struct{}     // holds a token when an attempt has failed
}

func newSwitchboard() *switchboard {
	return &switchboard{lines: make(map[string]string), tried: make(chan struct{}, 1)}
}

// plug makes a name lead to a new listener.
func (s *switchboard) plug(t testing.TB, name peerwire.Address) net.Listener {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines[name.String()] = l.Addr().String()
	return l
}

func (s *switchboard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	target, ok := s.lines[address]
	s.mu.Unlock()
	if !ok {
		target = nobody.String()
	}
	socket, err := new(net.Dialer).DialContext(ctx, network, target)
	if err != nil {
		poke(s.tried)
	}
	return socket, err
}

// dialRaw connects by hand.
func dialRaw(t testing.TB, a peerwire.Address) *net.TCPConn {
	t.Helper()
	socket, err := net.DialTimeout("tcp", a.String(), patience)
	must(t, err)
	t.Cleanup(func() { socket.Close() })
	must(t, socket.SetDeadline(time.Now().Add(patience)))
	return socket.(*net.TCPConn)
}

// ends checks that the peer closes a connection, in whichever way.
func ends(t testing.TB, socket net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, socket)
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		t.Error("the connection was not closed")
	}
}

// pipes are ports in memory, by number, for bubbles of package synctest. There time passes only
// when everything waits, so no timeout fires because the machine is busy.
type pipes map[uint16]*pipePort

// pipePort is one of them.
type pipePort struct {
	number  int
	sockets chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (p pipes) listen(number uint16) *pipePort {
	p[number] = &pipePort{number: int(number), sockets: make(chan net.Conn), closed: make(chan struct{})}
	return p[number]
}

// dial connects to the ports; it is the Dial option.
func (p pipes) dial(_ context.Context, _, address string) (net.Conn, error) {
	_, number, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, err
	}
	return p[uint16(n)].dial()
}

func (p *pipePort) dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.sockets <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipePort) Accept() (net.Conn, error) {
	select {
	case socket := <-p.sockets:
		return socket, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipePort) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipePort) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.number} }

// dialPipe connects by hand and sends the given bytes.
func dialPipe(t testing.TB, p *pipePort, says []byte) net.Conn {
	t.Helper()
	socket, err := p.dial()
	must(t, err)
	t.Cleanup(func() { socket.Close() })
	_, err = socket.Write(says)
	must(t, err)
	return socket
}

// flaky is a listener whose first connections fail.
type flaky struct {
	net.Listener
	mu    sync.Mutex
	fails int
}

func (f *flaky) Accept() (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails > 0 {
		f.fails--
		return nil, &net.OpError{Op: "accept", Err: io.ErrNoProgress}
	}
	return f.Listener.Accept()
}
