package server

import (
	"fmt"
	"net"
	"testing"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
)

// A server whose reconfig is committed listens at its new ports; one that has not
// learned of the commit knows them by the proposal alone, and must find it there. Two
// servers that both moved would else never meet again.
func TestAServerIsLookedForWhereAReconfigTakesIt(t *testing.T) {
	config := func(text string) *ensemble.Config {
		c, err := ensemble.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	book := addressBook{
		inForce:  config("server.1=10.0.0.1:2888:3888\nserver.2=10.0.0.2:2888:3888\nserver.3=10.0.0.3:2888:3888\nversion=0"),
		proposed: config("server.1=10.0.0.1:2889:3889\nserver.2=10.0.0.2:2888:3888\nserver.4=10.0.0.4:2888:3888\nversion=1"),
	}
	for _, c := range []struct {
		id           int64
		links, votes string
	}{
		{1, "[10.0.0.1:2888 10.0.0.1:2889]", "[10.0.0.1:3888 10.0.0.1:3889]"},
		{2, "[10.0.0.2:2888]", "[10.0.0.2:3888]"},
		{3, "[10.0.0.3:2888]", "[10.0.0.3:3888]"},
		{4, "[10.0.0.4:2888]", "[10.0.0.4:3888]"},
		{5, "[]", "[]"},
	} {
		id := quorum.ID(c.id)
		if got := fmt.Sprint(book.find(id, quorumOf)); got != c.links {
			t.Errorf("server %d takes learners at %s, want %s", c.id, got, c.links)
		}
		if got := fmt.Sprint(book.find(id, electionOf)); got != c.votes {
			t.Errorf("server %d takes votes at %s, want %s", c.id, got, c.votes)
		}
	}
}

// The ports for servers are told who the servers are: those in force and those proposed,
// which connect before they are in force.
func TestPortsForServersKnowTheHostsOfNow(t *testing.T) {
	config := func(version int, others ...string) *ensemble.Config {
		text := fmt.Sprintf("server.1=127.0.0.1:%d:%d\n", childtest.Port(t), childtest.Port(t))
		for i, host := range others {
			text += fmt.Sprintf("server.%d=%s:2888:3888\n", i+2, host)
		}
		c, err := ensemble.Parse(fmt.Sprintf("%sversion=%d", text, version))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var hosts func() []string
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.ID, c.Ensemble = 1, config(0, "192.0.2.2", "192.0.2.3")
		c.SecurePeers = func(l net.Listener, of func() []string) net.Listener { hosts = of; return l }
	})
	if !s.inspect(func(*replica.Replica) {}) { // it takes connections from the beginning of its loop
		t.Fatal("the loop has ended")
	}
	if got := fmt.Sprint(hosts()); got != "[127.0.0.1 192.0.2.2 192.0.2.3]" {
		t.Errorf("the hosts are %s", got)
	}
	s.peers.known.Store(&addressBook{inForce: config(0, "192.0.2.2", "192.0.2.3"), proposed: config(1, "192.0.2.2", "192.0.2.4")})
	if got := fmt.Sprint(hosts()); got != "[127.0.0.1 192.0.2.2 192.0.2.3 192.0.2.4]" {
		t.Errorf("with a proposed configuration the hosts are %s", got)
	}
}
