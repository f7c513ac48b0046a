//go:build linux

package servers

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// wire is a network of two members, the second of which listens, with the proxies from the
// first to the second.
type wire struct {
	network          *Network
	server           net.Listener // the second member's quorum port
	quorum, election string       // proxies from 1 to 2
}

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	w := &wire{network: newNetwork(), server: l}
	t.Cleanup(func() { l.Close(); w.network.close() })
	one, two := &Member{ID: 1}, &Member{ID: 2, quorumPort: port, electionPort: port}
	quorum, election, err := w.network.link(one, two)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.network.link(two, one); err != nil {
		t.Fatal(err)
	}
	w.quorum, w.election = loopback(quorum), loopback(election)
	return w
}

func (w *wire) dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// connect opens a connection from 1 to 2 and returns both ends.
func (w *wire) connect(t *testing.T) (client, server net.Conn) {
	t.Helper()
	client = w.dial(t, w.quorum)
	server, err := w.server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

// send writes a byte and checks whether it arrives.
func send(t *testing.T, from, to net.Conn, arrives bool) {
	t.Helper()
	if _, err := from.Write([]byte{7}); err != nil {
		t.Fatal(err)
	}
	receive(t, to, arrives)
}

func receive(t *testing.T, to net.Conn, arrives bool) {
	t.Helper()
	within := 50 * time.Millisecond // long enough to notice a wrong arrival
	if arrives {
		within = 10 * time.Second
	}
	if err := to.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	_, err := io.ReadFull(to, make([]byte, 1))
	if arrives && err != nil || !arrives && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("arrives %v: %v", arrives, err)
	}
}

func TestACutHoldsOneDirectionAndHealingLetsItGo(t *testing.T) {
	w := newWire(t)
	client, server := w.connect(t)
	send(t, client, server, true)
	w.network.Cut(1, 2)
	send(t, client, server, false)
	send(t, server, client, true)
	w.network.HealOne(1, 2)
	receive(t, server, true)
	w.network.Cut(2, 1)
	send(t, server, client, false)
	send(t, client, server, true)
	w.network.Heal()
	receive(t, client, true)
}

func TestNoConnectionOpensWhileEitherDirectionIsCut(t *testing.T) {
	for _, cut := range []direction{{1, 2}, {2, 1}} {
		w := newWire(t)
		w.network.Cut(cut.from, cut.to)
		client := w.dial(t, w.quorum)
		send(t, client, client, false)
		w.network.Heal()
		server, err := w.server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		receive(t, server, true)
		server.Close()
	}
}

func TestADelayHoldsEachByteSoLong(t *testing.T) {
	w := newWire(t)
	client, server := w.connect(t)
	const delay = 80 * time.Millisecond
	w.network.Delay(1, 2, delay)
	started := time.Now()
	send(t, client, server, true)
	if took := time.Since(started); took < delay {
		t.Errorf("a byte took %v", took)
	}
}

func TestAResetClosesBothEnds(t *testing.T) {
	w := newWire(t)
	client, server := w.connect(t)
	send(t, client, server, true)
	w.network.Reset(2, 1)
	for _, end := range []net.Conn{client, server} {
		if _, err := end.Read(make([]byte, 1)); err == nil {
			t.Error("an end is still open")
		}
	}
}

func TestTheEndOfAConnectionIsHeldByACutAsBytesAre(t *testing.T) {
	w := newWire(t)
	client, server := w.connect(t)
	send(t, client, server, true)
	w.network.Cut(1, 2)
	client.Close()
	receive(t, server, false)
	w.network.Heal()
	server.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := server.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after healing: %v", err)
	}
}

func TestAServerIsCalledBackThroughTheProxyOfTheOtherWay(t *testing.T) {
	w := newWire(t)
	client := w.dial(t, w.election)
	hello := binary.BigEndian.AppendUint64(nil, ^uint64(0xffff)) // version -65536
	hello = binary.BigEndian.AppendUint64(hello, 1)
	const own = "127.0.0.1:3888"
	hello = append(binary.BigEndian.AppendUint32(hello, uint32(len(own))), own...)
	if _, err := client.Write(append(hello, 0xee)); err != nil {
		t.Fatal(err)
	}
	server, err := w.server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	head := make([]byte, 20)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	rest := make([]byte, binary.BigEndian.Uint32(head[16:])+1)
	if _, err := io.ReadFull(server, rest); err != nil {
		t.Fatal(err)
	}
	want := w.network.election[direction{2, 1}]
	if address := string(rest[:len(rest)-1]); address != want || address == own || rest[len(rest)-1] != 0xee {
		t.Errorf("announced %q, then %x; the proxy of the way back is %s", rest[:len(rest)-1], rest[len(rest)-1], want)
	}
}
