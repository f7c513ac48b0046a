package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

func knock(t *testing.T, s *Server) net.Conn {
	t.Helper()
	socket, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	socket.SetDeadline(time.Now().Add(20 * time.Second))
	return socket
}

// closes reports whether the server ends a connection without another byte.
func closes(socket net.Conn) error {
	n, err := socket.Read(make([]byte, 64))
	if n > 0 {
		return fmt.Errorf("%d bytes came", n)
	}
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		return fmt.Errorf("it stays open")
	}
	return nil
}

// refuses reports whether the server resets a connection as soon as it exists. The kernel may
// report the reset to the side that dials before it reports that the connection is made.
func refuses(s *Server) error {
	socket, err := net.Dial("tcp", s.Addr().String())
	if errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	if err != nil {
		return err
	}
	defer socket.Close()
	socket.SetDeadline(time.Now().Add(20 * time.Second))
	return closes(socket)
}

func length(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func TestImpossibleFramesCloseTheConnectionSilently(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	healthy := dial(t, s, nil)
	cases := map[string][]byte{
		"negative": length(-1), "smallest": length(-1 << 31), "beyond the limit": length(wire.FrameBytesMax + 1),
		"largest": length(1<<31 - 1), "empty": length(0), "shorter than a header": append(length(7), make([]byte, 7)...),
	}
	for name, b := range cases {
		t.Run(name, func(t *testing.T) {
			first := knock(t, s)
			first.Write(b)
			if err := closes(first); err != nil {
				t.Errorf("as the first frame: %v", err)
			}
			p := dial(t, s, nil)
			p.socket.Write(b)
			if err := closes(p.socket); err != nil {
				t.Errorf("after the handshake: %v", err)
			}
			if again := dial(t, s, p); again.id != p.id {
				t.Error("the session went with the connection")
			}
		})
	}
	if code, _ := healthy.do(zk.Request{Op: zk.OpPing}); code != zk.OK {
		t.Error(code)
	}
}

// Random bytes, and random bodies after the header of every operation, whole and truncated: the
// healthy client continues, and nothing is left.
func TestGarbageHurtsNobody(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.ConnsPerIPMax = 0 }) // connections that end may disappear later
	healthy := dial(t, s, nil)
	healthy.do(create("/n", "", 0))
	before := runtime.NumGoroutine()
	random := rand.New(rand.NewPCG(5, 5))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
			if random.IntN(3) > 0 {
				b[i] = 0 // lengths that are small enough to be accepted
			}
		}
		return b
	}
	for i := range 300 {
		socket := knock(t, s)
		if i%3 != 0 {
			socket.Write(wire.AppendConnectRequest(nil, &wire.ConnectRequest{TimeoutMs: 5000, Password: make([]byte, 16)}))
			if _, err := readFrame(socket); err != nil {
				t.Fatal(err)
			}
		}
		for range random.IntN(20) {
			body := noise(random.IntN(60))
			frame := binary.BigEndian.AppendUint32(length(int32(8+len(body))), uint32(i))
			frame = binary.BigEndian.AppendUint32(frame, uint32(int32(random.IntN(125)-12)))
			frame = append(frame, body...)
			socket.Write(frame[:len(frame)-random.IntN(2)*random.IntN(8)])
		}
		if i%4 == 0 {
			socket.Write(noise(1000))
		}
		if i%10 == 0 {
			if code, _ := healthy.do(zk.Request{Op: zk.OpSetData, Path: "/n", Version: -1}); code != zk.OK {
				t.Fatalf("the healthy client: %v", code)
			}
		}
		socket.Close()
	}
	awaittest.Until(t, "only the healthy client is left", func() bool { return len(s.conns.all()) == 1 })
	awaittest.Until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+2 })
	if n := s.inFlight.Load(); n != 0 {
		t.Errorf("%d requests are still counted", n)
	}
	if s.Status().Counts.DigestMismatches != 0 {
		t.Error("digests differ")
	}
}

// Connections that send nothing, or only a part of a message, cost little.
func TestSilentConnectionsCostLittleAndGo(t *testing.T) {
	const many = 1000
	for name, says := range map[string][]byte{
		"nothing": nil, "half a length": {0, 0}, "a long first frame but its end": append(length(4000), make([]byte, 3999)...),
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, vfs.NewMem(), func(c *Config) {
				c.ConnsPerIPMax, c.HandshakeTime, c.SessionMin, c.SessionMax = 0, time.Hour, time.Minute, time.Minute
			})
			healthy := dial(t, s, nil)
			var first, second runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&first)
			for range many {
				if _, err := knock(t, s).Write(says); err != nil {
					t.Fatal(err)
				}
			}
			awaittest.Until(t, "all are here", func() bool { return len(s.conns.all()) == many+1 })
			runtime.GC()
			runtime.ReadMemStats(&second)
			each := (int64(second.HeapInuse+second.StackInuse) - int64(first.HeapInuse+first.StackInuse)) / many
			t.Logf("%d bytes for each, both ends of it", each)
			if each > 16<<10 {
				t.Error("more than 16 KiB")
			}
			if code, _ := healthy.do(zk.Request{Op: zk.OpPing}); code != zk.OK {
				t.Error(code)
			}
		})
	}
}

func TestConnectionWithoutAHandshakeGoesInTime(t *testing.T) {
	now := clock.NewManual(0)
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.Clock, c.HandshakeTime, c.SessionMin, c.SessionMax = now, time.Second, time.Hour, time.Hour
	})
	p, silent, half := dial(t, s, nil), knock(t, s), knock(t, s)
	half.Write(length(45))
	awaittest.Until(t, "all are here", func() bool { return len(s.conns.all()) == 3 })
	awaittest.Until(t, "one is left", func() bool {
		now.Advance(s.cfg.TickTime)
		return len(s.conns.all()) == 1
	})
	for _, socket := range []net.Conn{silent, half} {
		if err := closes(socket); err != nil {
			t.Error(err)
		}
	}
	if code, _ := p.do(zk.Request{Op: zk.OpPing}); code != zk.OK {
		t.Errorf("one with a session: %v", code)
	}
}

func TestConnectionsBeyondTheLimitsAreRefused(t *testing.T) {
	for name, limit := range map[string]func(*Config){
		"per address": func(c *Config) { c.ConnsPerIPMax = 2 },
		"in all":      func(c *Config) { c.ConnsPerIPMax, c.ConnsMax = 0, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, vfs.NewMem(), limit)
			a, b := dial(t, s, nil), dial(t, s, nil)
			if err := refuses(s); err != nil {
				t.Fatal(err)
			}

			awaittest.Until(t, "it is counted", func() bool { return s.conns.rejected.Load() == 1 })
			a.socket.Close()
			awaittest.Until(t, "the first has gone", func() bool { return len(s.conns.all()) == 1 })
			if again := dial(t, s, a); again.id != a.id {
				t.Error("no space for one more")
			}
			if code, _ := b.do(zk.Request{Op: zk.OpPing}); code != zk.OK || s.Status().Rejected != 1 {
				t.Errorf("%v, %d rejected", code, s.Status().Rejected)
			}
		})
	}
}

// fakeCommands answers two four-letter words.
type fakeCommands struct{}

func (fakeCommands) Known(name string) bool            { return name == "ruok" || name == "srvr" }
func (fakeCommands) Answer(_ *Server, n string) string { return "answer to " + n }

func TestFourLetterWordsAreAnsweredInsteadOfAHandshake(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.Commands, c.FourLetterWords = fakeCommands{}, []string{"stat"} })
	for sent, want := range map[string]string{
		"srvr": "answer to srvr", "srvr\n": "answer to srvr", "stat": "",
		"ruok": "ruok is not executed because it is not in the whitelist.\n", "nope": "",
	} {
		socket := knock(t, s)
		socket.Write([]byte(sent[:2])) // a terminal may send letter by letter
		socket.Write([]byte(sent[2:]))
		if got, err := io.ReadAll(socket); string(got) != want {
			t.Errorf("%q is answered with %q, %v", sent, got, err)
		}
	}
	p := dial(t, s, nil)
	p.socket.Write([]byte("srvr")) // after the handshake it is read as a length, an impossible one
	if err := closes(p.socket); err != nil {
		t.Error(err)
	}
}

// A long frame that comes byte by byte costs as much as its bytes, not as much as starting it
// again with each byte.
func TestTrickledFrameCostsLittle(t *testing.T) {
	pipes := &pipeListener{conns: make(chan net.Conn)}
	start(t, vfs.NewMem(), func(c *Config) { c.TickTime, c.Listener = 2*time.Second, pipes })
	ours, theirs := net.Pipe() // every write is read by itself
	pipes.conns <- theirs
	p := &peer{t: t, socket: ours}
	ours.Write(wire.AppendConnectRequest(nil, &wire.ConnectRequest{TimeoutMs: 5000, Password: make([]byte, 16)}))
	p.frame()
	r := create("/long", "", 0)
	r.Data, r.Xid = make([]byte, 1_000_000), 1
	frame := wire.AppendRequest(nil, &r)
	const last = 500
	p.socket.Write(frame[:len(frame)-last])
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range last {
		p.socket.Write(frame[len(frame)-last+i:][:1])
	}
	if h, _ := p.reply(zk.OpCreate); h.Code != zk.OK || h.Xid != 1 {
		t.Fatal(h)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("%d MiB were allocated for the last %d bytes", used>>20, last)
	}
}

// pipeListener accepts the connections that a test gives it.
type pipeListener struct {
	conns  chan net.Conn
	closed sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *pipeListener) Close() error {
	l.closed.Do(func() { close(l.conns) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }
