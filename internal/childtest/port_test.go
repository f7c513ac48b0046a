package childtest

import (
	"fmt"
	"net"
	"testing"
)

// TestPortIsNobodyElsesUntilTheTestEnds, and its owner can listen on it.
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
