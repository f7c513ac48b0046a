package lobby

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// caller is a connection from a host.
type caller struct {
	net.Conn
	host   string
	closed bool
}

func (c *caller) Close() error         { c.closed = true; return nil }
func (c *caller) RemoteAddr() net.Addr { return c }
func (c *caller) Network() string      { return "tcp" }
func (c *caller) String() string       { return net.JoinHostPort(c.host, "1") }

func TestTheLongestWaitingOfTheLargestCrowdIsReplaced(t *testing.T) {
	var l Lobby
	enter := func(host string) *caller {
		t.Helper()
		c := &caller{host: host}
		if !l.Enter(c) {
			t.Fatal("not let in")
		}
		return c
	}
	member := enter("10.0.0.1")
	var crowd []*caller
	for range Max - 1 {
		crowd = append(crowd, enter("10.9.9.9"))
	}
	other := enter("10.0.0.2")
	for i := range 200 {
		crowd = append(crowd, enter("10.9.9.9"))
		if !crowd[i+1].closed || crowd[i+2].closed {
			t.Fatalf("after %d more it is not the longest waiting that was replaced", i+1)
		}
	}
	if member.closed || other.closed || l.Count() != Max {
		t.Errorf("the members' connections are closed: %v, %v; %d wait", member.closed, other.closed, l.Count())
	}
	l.Leave(member)
	if last := enter("::1"); last.closed || crowd[202].closed || l.Count() != Max {
		t.Error("a connection was replaced where there was space")
	}
	l.Close()
	if !other.closed || member.closed || l.Count() != 0 || l.Enter(&caller{host: "10.0.0.1"}) {
		t.Error("Close has closed a connection that left, or lets one in")
	}
}

// TestStrangersOfManyHostsCloseNoYoungConnection: a distant peer has the time for its
// handshake, however many strangers connect meanwhile.
func TestStrangersOfManyHostsCloseNoYoungConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lobby
		flood := func() (entered int) {
			for i := range 4 * Max {
				if l.Enter(&caller{host: fmt.Sprintf("10.9.%d.%d", i/256, i%256)}) {
					entered++
				}
			}
			return entered
		}
		member := &caller{host: "10.0.0.1"}
		if !l.Enter(member) {
			t.Fatal("not let in")
		}
		if entered := flood(); entered != Max-1 || member.closed {
			t.Errorf("%d strangers have entered, and closed the member: %v", entered, member.closed)
		}
		if l.Enter(&caller{host: "10.0.0.2"}) {
			t.Error("there is a place in a full lobby in which all are young")
		}
		time.Sleep(stay)
		second := &caller{host: "10.0.0.2"}
		if !l.Enter(second) || !member.closed {
			t.Error("the one that has had its time keeps its place")
		}
		flood()
		if second.closed || l.Count() != Max {
			t.Error("a young one was closed")
		}
	})
}

// TestNetworksOfIPv6CountAsOneHost: each has 2^64 addresses.
func TestNetworksOfIPv6CountAsOneHost(t *testing.T) {
	var l Lobby
	var strangers []*caller
	member := &caller{host: "2001:db8:1::1"}
	l.Enter(member)
	for i := range 2 * Max {
		strangers = append(strangers, &caller{host: fmt.Sprintf("2001:db8:2::%x", i+1)})
		if !l.Enter(strangers[i]) {
			t.Fatal("not let in")
		}
	}
	if member.closed || !strangers[0].closed || strangers[2*Max-1].closed {
		t.Error("the addresses of one network have not replaced each other")
	}
}
