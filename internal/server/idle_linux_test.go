package server

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// idlers are the connections without a goroutine.
func idlers(s *Server) (n int) {
	for _, c := range s.conns.all() {
		if c.phase.now.Load() == phaseIdle {
			n++
		}
	}
	return n
}

// becomes waits until a server has the given number of connections, all idle.
func becomes(t *testing.T, s *Server, n int) {
	t.Helper()
	awaittest.Until(t, fmt.Sprintf("%d connections are idle", n), func() bool { return idlers(s) == n && len(s.conns.all()) == n })
}

// patient lets sessions be silent for longer than a test lasts, and ends clients soon that read
// nothing at the end.
func patient(t *testing.T, change func(*Config)) *Server {
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.TickTime, c.ConnsPerIPMax, c.HandshakeTime = 60*time.Second, 0, 0
		if change != nil {
			change(c)
		}
	})
	awaittest.Until(t, "it serves", s.Serves)
	s.closeGrace = 50 * time.Millisecond
	return s
}

func TestIdleConnectionsHaveNoGoroutines(t *testing.T) {
	const conns = 50
	s := patient(t, nil)
	first := dial(t, s, nil)
	becomes(t, s, 1)
	before := runtime.NumGoroutine()
	all := []*peer{first}
	for len(all) < conns {
		all = append(all, dial(t, s, nil))
	}
	becomes(t, s, conns)
	awaittest.Until(t, "none has a goroutine", func() bool { return runtime.NumGoroutine() <= before })
	for _, p := range all {
		p.must(zk.OK, zk.Request{Op: zk.OpExists, Path: "/"})
	}
	if n := idlers(s); n != 0 {
		t.Errorf("%d are idle after a request", n)
	}
	for range 3 {
		for _, p := range all {
			p.must(zk.OK, zk.Request{Op: zk.OpPing})
		}
		becomes(t, s, conns)
	}
}

// However an idle connection is ended, it disappears, and the others stay.
func TestIdleConnectionSeesItsEnd(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *Server, c *conn, p *peer){
		"the client closes": func(_ *testing.T, _ *Server, _ *conn, p *peer) { p.socket.Close() },
		"the client says that it sends no more": func(_ *testing.T, _ *Server, _ *conn, p *peer) {
			_ = p.socket.(*net.TCPConn).CloseWrite()
		},
		"the client resets": func(_ *testing.T, _ *Server, _ *conn, p *peer) { reset(p.socket) },
		"garbage":           func(_ *testing.T, _ *Server, _ *conn, p *peer) { _, _ = p.socket.Write(length(-1)) },
		"the session expires, and the client does not close": func(t *testing.T, s *Server, _ *conn, p *peer) {
			if !s.ExpireSession(p.id) {
				t.Error("it cannot expire")
			}
		},
		"the session expires, and the client closes": func(t *testing.T, s *Server, _ *conn, p *peer) {
			s.ExpireSession(p.id)
			if _, err := p.socket.Read(make([]byte, 1)); err != io.EOF {
				t.Error(err)
			}
			p.socket.Close()
		},
		"the session goes on elsewhere": func(t *testing.T, s *Server, _ *conn, p *peer) {
			p.socket = dial(t, s, p).socket
			p.socket.Close()
		},
		"too much waits for it": func(_ *testing.T, _ *Server, c *conn, _ *peer) {
			c.out.mu.Lock()
			defer c.out.mu.Unlock()
			c.overrun()
		},
		"a write to it fails": func(_ *testing.T, _ *Server, c *conn, _ *peer) {
			_ = c.socket.SetWriteDeadline(time.Now().Add(-time.Second))
			_, _ = c.socket.Write([]byte("late")) // as write does when the time is over
			c.shut()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := patient(t, nil)
			stays, goes := dial(t, s, nil), dial(t, s, nil)
			becomes(t, s, 2)
			c := s.conns.all()[1]
			end(t, s, c, goes)
			awaittest.Until(t, "it has gone", func() bool { return s.conns.get(c.id) == nil })
			becomes(t, s, 1)
			stays.must(zk.OK, zk.Request{Op: zk.OpPing})
			becomes(t, s, 1)
			c.ready() // a late event: it would subtract a goroutine that does not exist
			c.shut()
		})
	}
}

// The limits of outboxes and watches end idle connections, too.
func TestLimitsEndIdleConnections(t *testing.T) {
	t.Run("of an outbox", func(t *testing.T) {
		s := patient(t, func(c *Config) { c.OutboxBytesMax = 1 << 20 })
		slow, p := dial(t, s, nil), dial(t, s, nil)
		slow.socket.(*net.TCPConn).SetReadBuffer(4 << 10)
		slow.must(zk.OK, zk.Request{Op: zk.OpAddWatch, Path: "/", Watches: zk.WatchPersistentRecursive})
		slow.must(zk.OK, zk.Request{Op: zk.OpPing})
		becomes(t, s, 2)
		c := s.conns.all()[0]
		path := "/" + strings.Repeat("p", 4000)
		p.must(zk.OK, create(path, "", 0))
		for i := 0; s.conns.get(c.id) != nil; i++ {
			p.must(zk.OK, zk.Request{Op: zk.OpSetData, Path: path, Version: -1})
			if i > 20_000 {
				t.Fatal("80 MB of events later the client is still here")
			}
		}
	})
	t.Run("of watches", func(t *testing.T) {
		s := patient(t, func(c *Config) { c.WatchBytesMax = 100_000 })
		greedy, p := dial(t, s, nil), dial(t, s, nil)
		for i := range 200 {
			greedy.must(zk.ErrNoNode, zk.Request{Op: zk.OpExists, Path: fmt.Sprintf("/%0300d", i), Watch: true})
		}
		greedy.must(zk.OK, zk.Request{Op: zk.OpPing})
		becomes(t, s, 2)
		c := s.conns.all()[0]
		for i := 0; s.conns.get(c.id) != nil; i++ {
			p.must(zk.ErrNoNode, zk.Request{Op: zk.OpExists, Path: fmt.Sprintf("/%d", i), Watch: true})
			if i > 5000 {
				t.Fatal("the client with most watches is still here")
			}
		}
	})
	t.Run("of connections", func(t *testing.T) {
		s := patient(t, func(c *Config) { c.ConnsMax = 2 })
		a, _ := dial(t, s, nil), dial(t, s, nil)
		becomes(t, s, 2)
		if err := refuses(s); err != nil {
			t.Fatal(err)
		}
		becomes(t, s, 2)
		a.socket.Close()
		becomes(t, s, 1)
		dial(t, s, a)
		becomes(t, s, 2)
	})
}

func TestWatchEventReachesAnIdleConnection(t *testing.T) {
	s := patient(t, nil)
	watcher, p := dial(t, s, nil), dial(t, s, nil)
	watcher.must(zk.ErrNoNode, zk.Request{Op: zk.OpExists, Path: "/n", Watch: true})
	watcher.must(zk.OK, zk.Request{Op: zk.OpPing})
	becomes(t, s, 2)
	p.must(zk.OK, create("/n", "", 0))
	watcher.frame()
	if c := s.conns.all()[0]; c.phase.now.Load() != phaseIdle {
		t.Error("the event has woken the connection")
	}
	watcher.must(zk.OK, zk.Request{Op: zk.OpExists, Path: "/n"})
}

// A connection is idle while a goroutine writes to its client, which does not read.
func TestIdleConnectionIsWrittenTo(t *testing.T) {
	const events = 200
	for name, goes := range map[string]func(t *testing.T, s *Server, c *conn, p *peer){
		"the client reads": func(t *testing.T, s *Server, c *conn, p *peer) {
			_ = c.socket.(*net.TCPConn).SetWriteBuffer(1 << 20) // otherwise it takes long
			_ = p.socket.(*net.TCPConn).SetReadBuffer(1 << 20)
			p.reply(zk.OpPing)
			p.must(zk.OK, zk.Request{Op: zk.OpPing})
			if len(p.events) != events {
				t.Errorf("%d events of %d", len(p.events), events)
			}
			becomes(t, s, 2)
			p.socket.Close()
		},
		"it resets":        func(_ *testing.T, _ *Server, _ *conn, p *peer) { reset(p.socket) },
		"the session ends": func(_ *testing.T, s *Server, _ *conn, p *peer) { s.ExpireSession(p.id) },
		"it takes nothing": func(t *testing.T, s *Server, c *conn, _ *peer) {
			awaittest.Until(t, "its write has failed", func() bool { // the server may have begun another one
				_ = c.socket.SetWriteDeadline(time.Now())
				return s.conns.get(c.id) == nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := patient(t, nil)
			p, other := dial(t, s, nil), dial(t, s, nil)
			path := "/" + strings.Repeat("p", 4000)
			other.must(zk.OK, create(path, "", 0))
			p.must(zk.OK, zk.Request{Op: zk.OpAddWatch, Path: path, Watches: zk.WatchPersistent})
			p.must(zk.OK, zk.Request{Op: zk.OpPing})
			other.must(zk.OK, zk.Request{Op: zk.OpPing})
			becomes(t, s, 2) // otherwise its own goroutine may write the first events, and wait for the client
			c := s.conns.all()[0]
			_ = c.socket.(*net.TCPConn).SetWriteBuffer(4 << 10)
			_ = p.socket.(*net.TCPConn).SetReadBuffer(4 << 10)
			for range events {
				other.must(zk.OK, zk.Request{Op: zk.OpSetData, Path: path, Version: -1})
			}
			other.must(zk.OK, zk.Request{Op: zk.OpPing})
			becomes(t, s, 2)
			if c.out.unread().bytes == 0 {
				t.Error("all was written")
			}
			p.send(zk.Request{Op: zk.OpPing})
			goes(t, s, c, p)
			awaittest.Until(t, "it has gone", func() bool { return s.conns.get(c.id) == nil })
		})
	}
}

// A server that stops leaves no goroutine and no descriptor of its idle connections.
func TestStopEndsIdleConnections(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	s, stop := launch(t, vfs.NewMem(), func(c *Config) { c.TickTime = 60 * time.Second })
	var all []*peer
	for range 50 {
		all = append(all, dial(t, s, nil))
	}
	becomes(t, s, len(all))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if _, err := p.socket.Read(make([]byte, 1)); err == nil {
			t.Error("a connection is open")
		}
		p.socket.Close()
	}
	awaittest.Until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	awaittest.Until(t, "all files are closed", func() bool { return descriptors(t) <= files })
}

func descriptors(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// registering does something just before a socket is registered with the poller, and after it.
type registering struct {
	syscall.RawConn
	before, after func()
}

func (r *registering) Control(f func(fd uintptr)) error {
	r.before()
	defer r.after()
	return r.RawConn.Control(f)
}

// Events are not missed while a connection becomes idle.
func TestConnectionThatGoesToBeIdleIsWoken(t *testing.T) {
	nothing := func(*Server, *conn, net.Conn) {}
	asks := func(_ *Server, _ *conn, client net.Conn) {
		_, _ = client.Write(question)
		awaittest.RealTime(50*time.Millisecond, "the poller sees that something has come")
	}
	shuts := func(_ *Server, c *conn, _ net.Conn) { c.shut() }
	ends := func(s *Server, c *conn, _ net.Conn) {
		s.ExpireSession(zk.SessionID(c.sessionID.Load()))
		_ = awaittest.Poll(awaittest.Within(t), func() bool { return c.phase.now.Load() == phaseEnding })
	}
	for name, what := range map[string]struct {
		before, after func(*Server, *conn, net.Conn)
	}{
		"a request before": {asks, nothing}, "a request after": {nothing, asks},
		"closed before": {shuts, nothing}, "closed after": {nothing, shuts},
		"ended before": {ends, nothing}, "ended after": {nothing, ends},
	} {
		t.Run(name, func(t *testing.T) {
			s := patient(t, nil)
			client, socket := pair(t)
			c := newConn(s, socket)
			var before, after sync.Once
			c.input.raw = &registering{
				c.input.raw,
				func() { before.Do(func() { what.before(s, c, client) }) },
				func() { after.Do(func() { what.after(s, c, client) }) },
			}
			s.conns.add(c, 0, 0)
			s.task(c.serve)
			p := &stormClient{socket: client}
			asks := strings.HasPrefix(name, "a request")
			if err := p.connect(nil); err != nil && asks { // a client whose session is ended may have had no answer
				t.Fatal(err)
			}
			if !asks {
				awaittest.Until(t, "it has gone", func() bool { return s.conns.get(c.id) == nil })
				return
			}
			if _, err := p.frame(); err != nil {
				t.Fatal(err)
			}
			_, _ = client.Write(heartbeat)
			if _, err := p.frame(); err != nil {
				t.Fatal(err)
			}
			becomes(t, s, 1)
		})
	}
}

// pair returns both ends of a connection.
func pair(t *testing.T) (client, server net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// A connection that must see its end waits in a goroutine, and is served until then.
func TestEndingConnectionIsNotIdle(t *testing.T) {
	s := patient(t, nil)
	p := dial(t, s, nil)
	becomes(t, s, 1)
	c := s.conns.all()[0]
	c.seeEnd()
	for range 3 {
		p.must(zk.OK, zk.Request{Op: zk.OpPing})
	}
	if c.phase.now.Load() != phaseEnding {
		t.Error("it is idle again")
	}
	p.socket.Close()
	becomes(t, s, 0)
}
