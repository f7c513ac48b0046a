package lobby

import (
	"net"
	"testing"
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
