package childtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports of FreePort lie below those that Linux gives to connections by itself:
// nobody takes one between the look and its use, and a client that dials again and
// again while nobody listens cannot connect to itself.
const (
	portMin = 12000
	portMax = 32000
)

// Port returns a port of 127.0.0.1 on which nobody listens.
func Port(t testing.TB) int {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// FreePort is Port for programs that are no tests.
func FreePort() (int, error) {
	for range 1000 {
		port := portMin + rand.IntN(portMax-portMin)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("childtest: no free port on 127.0.0.1")
}
