package server

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
)

// A server whose reconfig is committed listens at its new ports. A server that has not learned
// of the commit knows these ports only from the proposal, and must look for the other there.
// Otherwise two servers that both moved would never meet again.
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

// The ports for servers are told which servers there are: those in force and those proposed,
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
	if !s.inspect(func(*replica.Replica) {}) { // it accepts connections from the beginning of its loop
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

// A server that was taken out is in no other server's address book, and stays where it is. It
// tells the servers that it asks its last address.
func TestServerThatIsTakenOutSaysWhereItIs(t *testing.T) {
	for _, own := range []bool{false, true} { // started with a line of its own, to be added later
		ports := freePorts(t, 4)
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { other.Close() })
		config := func(version int, line string) *ensemble.Config {
			c, err := ensemble.Parse(fmt.Sprintf("server.2=127.0.0.1:1:%d\n%sversion=%x\n", other.Addr().(*net.TCPAddr).Port, line, version))
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		line := func(quorumPort, electionPort int) string {
			return fmt.Sprintf("server.1=127.0.0.1:%d:%d\n", quorumPort, electionPort)
		}
		s := start(t, vfs.NewMem(), func(c *Config) {
			c.ID, c.Ensemble, c.ReconfigEnabled = 1, config(0, line(ports[0], ports[1])), true
			if own {
				c.Own, c.Ensemble = c.Ensemble.Member(1), config(0, "")
			}
		})
		says := func(when string, port int) {
			t.Helper()
			_ = other.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute))
			for { // an earlier connection may come first
				socket, err := other.Accept()
				if err != nil {
					t.Fatalf("own=%t: %s, it does not say that it is at port %d: %v", own, when, port, err)
				}
				said, _ := io.ReadAll(socket)
				socket.Close()
				if in, err := peerwire.DecodeInitial(said); err != nil {
					t.Fatal(err)
				} else if len(in.Addresses) == 1 && int(in.Addresses[0].Port) == port {
					return
				}
			}
		}
		force := func(c *ensemble.Config) {
			s.inspect(func(*replica.Replica) { s.reconfigure(&replica.Ensembles{InForce: c}) })
		}
		says("started", ports[1])
		force(config(1, line(ports[2], ports[3])))
		says("moved", ports[3])
		force(config(2, ""))
		for range 2 {
			says("taken out", ports[3])
		}
		listens(t, "taken out", ports[2], ports[3])
	}
}
