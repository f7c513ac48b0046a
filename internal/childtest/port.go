package childtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports lie below those that Linux gives to connections by itself:
// nobody takes one between the look and its use, and a client that dials again and
// again while nobody listens cannot connect to itself.
const (
	portMin = 12000
	portMax = 32000
)

// Port returns a port of 127.0.0.1 on which nobody listens, and that no other caller of
// any process is given before the test ends: its UDP port is held until then, by which
// those who want the TCP port know.
func Port(t testing.TB) int { return Ports(t, 1) }

// Ports returns the first of n ports that follow each other, each as that of Port.
func Ports(t testing.TB, n int) int {
	t.Helper()
	first, held, err := take(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { release(held) })
	return first
}

// FreePort is Port for programs that are no tests, and for those that need both. It is
// not held.
func FreePort() (int, error) {
	port, held, err := take(1)
	if err != nil {
		return 0, err
	}
	return port, held[0].Close()
}

// take returns the first of n ports, and what holds them.
func take(n int) (int, []net.PacketConn, error) {
	for range 1000 {
		first := portMin + rand.IntN(portMax-portMin-n+1)
		var all []net.PacketConn
		for len(all) < n {
			held := hold(first + len(all))
			if held == nil {
				break
			}
			all = append(all, held)
		}
		if len(all) == n {
			return first, all, nil
		}
		release(all)
	}
	return 0, nil, errors.New("childtest: no free port on 127.0.0.1")
}

// hold returns what holds a port, nil if somebody has it.
func hold(port int) net.PacketConn {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	held, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil
	}
	if l, err := net.Listen("tcp", address); err == nil && l.Close() == nil {
		return held
	}
	_ = held.Close()
	return nil
}

func release(all []net.PacketConn) {
	for _, held := range all {
		_ = held.Close()
	}
}
