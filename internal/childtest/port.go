package childtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports are below those that Linux assigns to connections by itself. So no
// connection takes a port between the check and its use, and a client that keeps
// dialing while nobody listens cannot connect to itself.
const (
	portMin = 12000
	portMax = 32000
)

// Port returns a port of 127.0.0.1 on which nobody listens, and that no other caller
// in any process gets before the test ends. Until then the UDP port of the same
// number is held, which tells others that the TCP port is taken.
func Port(t testing.TB) int { return Ports(t, 1) }

// Ports returns the first of n consecutive ports, each of which is like that of Port.
func Ports(t testing.TB, n int) int {
	t.Helper()
	first, held, err := take(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { release(held) })
	return first
}

// FreePort is like Port, for programs that are not tests, and for those that need
// both TCP and UDP. The port is not held.
func FreePort() (int, error) {
	port, held, err := take(1)
	if err != nil {
		return 0, err
	}
	return port, held[0].Close()
}

// take returns the first of n ports, and the sockets that hold them.
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

// hold returns the socket that holds a port, or nil if somebody uses the port.
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
