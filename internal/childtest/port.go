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
func Port(t testing.TB) int {
	t.Helper()
	port, held, err := take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	return port
}

// FreePort is Port for programs that are no tests, and for those that need both. It is
// not held.
func FreePort() (int, error) {
	port, held, err := take()
	if err != nil {
		return 0, err
	}
	return port, held.Close()
}

// take returns a port, and what holds it.
func take() (int, net.PacketConn, error) {
	for range 1000 {
		port := portMin + rand.IntN(portMax-portMin)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		held, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			if err = l.Close(); err == nil {
				return port, held, nil
			}
		}
		_ = held.Close()
	}
	return 0, nil, errors.New("childtest: no free port on 127.0.0.1")
}
