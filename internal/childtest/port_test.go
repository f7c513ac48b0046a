package childtest

import (
	"fmt"
	"net"
	"testing"
)

// TestPortsFollowEachOther also checks that each port is held.
func TestPortsFollowEachOther(t *testing.T) {
	first := Ports(t, 3)
	for port := first; port < first+3; port++ {
		if other, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = other.Close()
			t.Errorf("port %d of those from %d on can be taken by another test", port, first)
		}
	}
}

// TestPortIsNobodyElsesUntilTheTestEnds also checks that its owner can listen
// on it.
func TestPortIsNobodyElsesUntilTheTestEnds(t *testing.T) {
	var address string
	t.Run("the owner", func(t *testing.T) {
		address = fmt.Sprintf("127.0.0.1:%d", Port(t))
		if other, err := net.ListenPacket("udp", address); err == nil {
			_ = other.Close()
			t.Errorf("%s can be taken by another test", address)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	})
	after, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = after.Close()
}
