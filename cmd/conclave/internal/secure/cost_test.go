package secure

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/certtest"
	"github.com/conclave-project/conclave/internal/server"
)

// firstFlight returns what a client sends first.
func firstFlight(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	go func() { _ = tls.Client(theirs, config).Handshake() }() // ends with the pipe
	head := make([]byte, 5)
	_, err := ours.Read(head)
	must(t, err)
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	_, err = ours.Read(body)
	must(t, err)
	return append(head, body...)
}

// longHello returns the beginning of a first message that claims n bytes and has most of them.
func longHello(n int) []byte {
	message := append([]byte{1, byte(n >> 16), byte(n >> 8), byte(n)}, make([]byte, n-1)...)
	var flight []byte
	for len(message) > 0 {
		part := message[:min(len(message), 16<<10)]
		flight = append(binary.BigEndian.AppendUint16(append(flight, tlsHandshake, 3, 1), uint16(len(part))), part...)
		message = message[len(part):]
	}
	return flight
}

// standing counts the server's ends of connections that wait for more, or have been closed.
type standing struct {
	net.Listener
	waiting, closed, got atomic.Int64
}

func (s *standing) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	return &standingConn{Conn: c, of: s}, err
}

type standingConn struct {
	net.Conn
	of   *standing
	once sync.Once
}

func (c *standingConn) Read(b []byte) (int, error) {
	c.of.waiting.Add(1)
	n, err := c.Conn.Read(b)
	c.of.got.Add(int64(n))
	c.of.waiting.Add(-1)
	return n, err
}

func (c *standingConn) Close() error {
	c.once.Do(func() { c.of.closed.Add(1) })
	return c.Conn.Close()
}

// TestLongHandshakesOfOneHostLeaveSpaceToOthers checks that a certificate with a long chain gets
// through.
func TestLongHandshakesOfOneHostLeaveSpaceToOthers(t *testing.T) {
	var long longHandshakes
	shake := func(host string, bytes int) (*prefixed, bool) {
		p := &prefixed{long: &long, host: netip.MustParseAddr(host), answered: true}
		return p, p.count(bytes) == nil
	}
	var silent []*prefixed
	refused := 0
	for range 1000 {
		p, may := shake("10.9.9.9", 30<<10)
		if silent = append(silent, p); !may {
			refused++
			p.shaken() // its connection is closed
		}
	}
	if honest, may := shake("10.0.0.1", 30<<10); !may || refused < 900 || refused == 1000 {
		t.Errorf("another host is served %t; of the first %d are refused", may, refused)
	} else {
		honest.shaken()
	}
	for host := range 40 {
		for range 10 {
			p, _ := shake(fmt.Sprintf("10.1.0.%d", host), 30<<10)
			silent = append(silent, p)
		}
	}
	if p, may := shake("10.0.0.1", 30<<10); may {
		t.Error("all together have no limit")
	} else {
		p.shaken()
	}
	if p, may := shake("10.0.0.1", helloBytes); !may || p.count(0) != nil {
		t.Error("a short handshake is refused")
	}
	for _, p := range silent {
		if p.long != nil {
			p.shaken()
		}
	}
	if long.all != 0 || len(long.of) != 0 {
		t.Errorf("%d bytes, %v are kept", long.all, long.of)
	}
}

// falling is the client's end of a connection: once the server has answered, it sends no more than
// left bytes.
type falling struct {
	net.Conn
	answered bool
	left     int
}

func (f *falling) Read(b []byte) (int, error) {
	f.answered = true
	return f.Conn.Read(b)
}

func (f *falling) Write(b []byte) (int, error) {
	if !f.answered {
		return f.Conn.Write(b)
	}
	if len(b) > f.left {
		n, err := f.Conn.Write(b[:f.left])
		f.left = 0
		return n, errors.Join(err, io.ErrShortWrite)
	}
	f.left -= len(b)
	return f.Conn.Write(b)
}

// certified returns a certificate of about the given size.
func certified(ca *certtest.Authority, bytes int) *certtest.Identity {
	var hosts []string
	for i := range bytes / 32 {
		hosts = append(hosts, fmt.Sprintf("host-%08d.example-example", i)) // 30 bytes, and their length
	}
	return ca.Issue("long", hosts...)
}

// TestOneLongHandshakeHasABound has clients that send as much as they may, and stop before the end.
// Each costs at most 112 KiB of memory; a longer handshake is not read.
func TestOneLongHandshakeHasABound(t *testing.T) {
	ca := certtest.New("ca")
	ports := &standing{}
	source := open(t, settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca))
	addr := startServer(t, source, func(c *server.Config) {
		c.ConnsPerIPMax, c.HandshakeTime = 0, time.Hour
		c.SecureClients = func(l net.Listener, _ bool) net.Listener {
			ports.Listener = l
			return source.Listener(ports, false)
		}
	})
	session(t, addr, client(ca, certified(ca, 28<<10)))
	who := certified(ca, 31<<10)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		shows := client(ca, who)
		shows.MinVersion, shows.MaxVersion = version, version
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		const many = 30 // far from what the handshakes of one host may take together
		already, closed := ports.waiting.Load(), ports.closed.Load()
		var all []net.Conn
		for range many {
			c, err := net.Dial("tcp", addr)
			must(t, err)
			t.Cleanup(func() { c.Close() })
			all = append(all, c)
			left := len(who.Certificate.Raw) // less than all of it, with what surrounds it
			if err := tls.Client(&falling{Conn: c, left: left}, shows).Handshake(); err == nil && version == tls.VersionTLS12 {
				t.Fatal("the whole handshake went through")
			}
		}
		awaittest.Until(t, "all wait for more, or are closed", func() bool {
			return ports.waiting.Load()+ports.closed.Load() >= already+closed+many
		})
		if more := ports.closed.Load() - closed; more > 0 {
			t.Errorf("%d are closed", more)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := (int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)) / many
		t.Logf("%s: %d bytes each", tls.VersionName(version), each)
		if each > raceFactor*112<<10 {
			t.Errorf("%s: more than 112 KiB", tls.VersionName(version))
		}
		for _, c := range all {
			c.Close()
		}
		awaittest.Until(t, "they have gone", func() bool {
			source.long.mu.Lock()
			defer source.long.mu.Unlock()
			return source.long.all == 0
		})
	}
	echoes := echo(t, source, false)
	for kib, want := range map[int]bool{28: true, 40: false} {
		if connects(t, echoes, client(ca, certified(ca, kib<<10))) != want {
			t.Errorf("a certificate of %d KiB is taken: %t", kib, !want)
		}
	}
	c, err := net.Dial("tcp", addr)
	must(t, err)
	defer c.Close()
	_, _ = c.Write(longHello(firstBytesMax)) // the connection may be closed by then
	must(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a first message that has no end is read on")
	}
}

// TestUnfinishedHandshakesCostLittle checks that a client that has proved nothing costs at most 48
// KiB of memory, wherever it stops.
func TestUnfinishedHandshakesCostLittle(t *testing.T) {
	const many = 1000
	ca := certtest.New("ca")
	config := client(ca, nil)
	for name, says := range map[string][]byte{
		"nothing":                 nil,
		"a part of a record":      append([]byte{tlsHandshake, 3, 1, 0x40, 0}, make([]byte, 16<<10-1)...),
		"a whole first flight":    firstFlight(t, config),
		"a hello of 15 KiB":       longHello(15 << 10),
		"a hello of 16 KiB":       longHello(16 << 10),
		"a hello of 60 KiB":       longHello(60 << 10),
		"a frame of the protocol": {0, 0, 0, 45},
	} {
		t.Run(name, func(t *testing.T) {
			ports := &standing{}
			source := open(t, settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca))
			addr := startServer(t, source, func(c *server.Config) {
				c.ConnsPerIPMax, c.HandshakeTime = 0, time.Hour
				c.SecureClients = func(l net.Listener, _ bool) net.Listener {
					ports.Listener = l
					return source.Listener(ports, false)
				}
			})
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for range many {
				c, err := net.Dial("tcp", addr)
				must(t, err)
				t.Cleanup(func() { c.Close() })
				_, _ = c.Write(says) // the connection may be closed by then
			}
			awaittest.Until(t, "all wait for more, or are closed", func() bool {
				closed := ports.closed.Load()
				return ports.waiting.Load()+closed == many && ports.got.Load() >= (many-closed)*int64(len(says))
			})
			runtime.GC()
			runtime.ReadMemStats(&after)
			each := (int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)) / many
			t.Logf("%d bytes each, both ends of it; %d were closed", each, ports.closed.Load())
			if each > raceFactor*48<<10 {
				t.Error("more than 48 KiB")
			}
			session(t, addr, client(ca, ca.Issue("honest"))) // another client is served
		})
	}
}
