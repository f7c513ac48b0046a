package server

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/peerwire"
	listening "github.com/conclave-project/conclave/internal/ports"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/zab"
)

// freePorts returns different ports on which nobody listens.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		ports = append(ports, childtest.Port(t))
	}
	return ports
}

// twoServers is an ensemble of two with these ports, for the quorum and for the election.
func twoServers(t *testing.T, ports ...any) *ensemble.Config {
	t.Helper()
	c, err := ensemble.Parse(fmt.Sprintf("server.1=127.0.0.1:%d:%d\nserver.2=127.0.0.1:%d:%d\n", ports...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A reconfig may move one of a server's ports and leave the other where it is.
func TestReconfigMovesEachPortForServersByItself(t *testing.T) {
	ports := freePorts(t, 6)
	config := func(quorumPort, electionPort int) *ensemble.Config {
		return twoServers(t, quorumPort, electionPort, ports[4], ports[5])
	}
	q, e := ports[0], ports[2]
	s := start(t, vfs.NewMem(), func(c *Config) { c.ID, c.Ensemble = 1, config(q, e) })
	for _, to := range [][2]int{{ports[1], e}, {ports[1], ports[3]}, {q, e}} {
		now := config(to[0], to[1])
		if !s.inspect(func(*replica.Replica) { s.learn(&addressBook{inForce: now}) }) {
			t.Fatal("the loop has ended")
		}
		for _, port := range to {
			listens(t, fmt.Sprintf("from %d:%d to %d:%d", q, e, to[0], to[1]), port)
		}
		for i, old := range []int{q, e} {
			if old != to[i] {
				awaittest.Until(t, fmt.Sprintf("nobody listens on %d any more", old), func() bool { return !answers(old) })
			}
		}
		q, e = to[0], to[1]
	}
}

// A server that is behind learns of a reconfig and of its commit in one step.
func TestReconfigProposedAndCommittedInOneStepMovesThePorts(t *testing.T) {
	ports := freePorts(t, 4)
	config := func(quorumPort, electionPort int) *ensemble.Config {
		c, err := ensemble.Parse(fmt.Sprintf("server.1=127.0.0.1:%d:%d\nserver.2=127.0.0.1:1:2\n", quorumPort, electionPort))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before, now := config(ports[0], ports[1]), config(ports[2], ports[3])
	s := start(t, vfs.NewMem(), func(c *Config) { c.ID, c.Ensemble = 1, before })
	s.inspect(func(*replica.Replica) {
		s.reconfigure(&replica.Ensembles{Proposed: now, InForce: now})
	})
	listens(t, "after the step", ports[2], ports[3])
	awaittest.Until(t, "nobody listens on the old ports", func() bool { return !answers(ports[0]) && !answers(ports[1]) })
}

// The others may or may not know yet that a proposed configuration is in force: a server
// listens where either of the two configurations has it (review 25, F5).
func TestServerListensByBothConfigurationsUntilAProposalIsDecided(t *testing.T) {
	ports := freePorts(t, 4)
	before, next := twoServers(t, ports[0], ports[1], 1, 2), twoServers(t, ports[2], ports[3], 1, 2).WithVersion(1)
	s := start(t, vfs.NewMem(), func(c *Config) { c.ID, c.Ensemble, c.Pending = 1, before, next })
	listens(t, "started with a proposal", ports...)
	s.inspect(func(*replica.Replica) { s.learn(&addressBook{inForce: before}) })
	listens(t, "the proposal is given up", ports[:2]...)
	awaittest.Until(t, "nobody listens on the proposed ports", func() bool { return !answers(ports[2]) && !answers(ports[3]) })
	s.inspect(func(*replica.Replica) { s.reconfigure(&replica.Ensembles{Proposed: next.WithVersion(2)}) })
	listens(t, "proposed again", ports...)
	s.inspect(func(*replica.Replica) { s.reconfigure(&replica.Ensembles{InForce: next.WithVersion(2)}) })
	listens(t, "in force", ports[2:]...)
	awaittest.Until(t, "nobody listens on the old ports", func() bool { return !answers(ports[0]) && !answers(ports[1]) })
}

// In one reconfig a host gets another name of the same address, and one of its two ports
// another number; then the two ports are exchanged (review 25, F2).
func TestReconfigOfNamesAndPortsLeavesNoPortClosed(t *testing.T) {
	ports := freePorts(t, 3)
	config := func(host string, quorumPort, electionPort int) *ensemble.Config {
		c, err := ensemble.Parse(fmt.Sprintf("server.1=%s:%d:%d\nserver.2=127.0.0.1:1:2\n", host, quorumPort, electionPort))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	version := int64(0)
	s := start(t, vfs.NewMem(), func(c *Config) { c.ID, c.Ensemble = 1, config("127.0.0.1", ports[0], ports[1]) })
	for _, now := range []*ensemble.Config{
		config("localhost", ports[2], ports[1]), config("127.0.0.1", ports[1], ports[2]), config("localhost", ports[2], ports[1]),
	} {
		version++
		now = now.WithVersion(version)
		s.inspect(func(*replica.Replica) { s.reconfigure(&replica.Ensembles{Proposed: now, InForce: now}) })
		says := func(p *listening.Ports, port uint16) bool {
			return p.Addr() != nil && p.Addr().(*net.TCPAddr).Port == int(port)
		}
		line := now.Member(1)
		awaittest.Until(t, now.Text(), func() bool {
			return says(s.quorumPort, line.Quorum[0].Port) && says(s.electionPort, line.Election[0].Port) &&
				answers(ports[1]) && answers(ports[2]) && len(s.quorumPort.Failed())+len(s.electionPort.Failed()) == 0
		})
	}
}

// A reconfig may give a server further addresses, with ports of their own (review 25, F3, F4).
func TestReconfigOpensFurtherAddresses(t *testing.T) {
	ports := freePorts(t, 4)
	s := start(t, vfs.NewMem(), func(c *Config) { c.ID, c.Ensemble = 1, twoServers(t, ports[0], ports[1], 1, 2) })
	now, err := ensemble.Parse(fmt.Sprintf("server.1=127.0.0.1:%d:%d|127.0.0.2:%d:%d\nserver.2=127.0.0.1:1:2\nversion=1", ports[0], ports[1], ports[2], ports[3]))
	if err != nil {
		t.Fatal(err)
	}
	s.inspect(func(*replica.Replica) { s.reconfigure(&replica.Ensembles{Proposed: now, InForce: now}) })
	for i, port := range ports {
		awaittest.Until(t, fmt.Sprintf("somebody listens on the %d. port of all addresses", i), func() bool {
			socket, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", port))
			if err == nil {
				socket.Close()
			}
			return err == nil
		})
	}
}

// The clients' port was in zoo.cfg, and a reconfig is the first to name another one (review 25,
// F6).
func TestFirstReconfigThatNamesAClientPortMovesIt(t *testing.T) {
	ports := freePorts(t, 6)
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.ID, c.Ensemble = 1, twoServers(t, ports[0], ports[1], 1, 2)
		c.Listener, c.ClientAddr = nil, fmt.Sprintf(":%d", ports[4])
	})
	to := func(port int) {
		now, err := ensemble.Parse(fmt.Sprintf("server.1=127.0.0.1:%d:%d;%d\nserver.2=127.0.0.1:1:2\n", ports[0], ports[1], port))
		if err != nil {
			t.Fatal(err)
		}
		s.inspect(func(*replica.Replica) { s.reconfigure(&replica.Ensembles{InForce: now}) })
	}
	to(ports[4])
	listens(t, "the same port", ports[4])
	to(ports[5])
	listens(t, "another port", ports[5])
	awaittest.Until(t, "nobody listens on the old port", func() bool { return !answers(ports[4]) })
	taken, err := net.Listen("tcp", fmt.Sprintf(":%d", ports[4]))
	if err != nil {
		t.Fatal(err)
	}
	to(ports[4])
	awaittest.Until(t, "the port is taken", func() bool { return len(s.clients[plainPort].ports.Failed()) == 1 })
	listens(t, "the port that was", ports[5])
	if told := s.Status().PortsFailed; len(told) != 1 || !strings.HasPrefix(told[0], "clientPort ") || !strings.Contains(told[0], fmt.Sprintf(":%d: listen", ports[4])) {
		t.Errorf("the status tells %q", told)
	}
	taken.Close()
	awaittest.Until(t, "nobody listens on the port that was", func() bool { return !answers(ports[5]) })
	listens(t, "the port is free", ports[4])
}

// A reconfig may give a server its first port for TLS: the port opens if the files for TLS were
// read, and never as a port in clear text.
func TestReconfigOpensAPortForTLS(t *testing.T) {
	for _, has := range []bool{true, false} {
		ports := freePorts(t, 4)
		var secured atomic.Int64
		s := start(t, vfs.NewMem(), func(c *Config) {
			c.ID, c.Ensemble = 1, twoServers(t, ports[0], ports[1], 1, 2)
			if has {
				c.SecureClients = func(l net.Listener, secure bool) net.Listener {
					if secure {
						secured.Add(1)
					}
					return l
				}
			}
		})
		if s.SecureAddr() != nil {
			t.Fatal("a port for TLS is open at the start")
		}
		for version, port := range ports[2:] {
			now, err := ensemble.Parse(fmt.Sprintf("server.1=127.0.0.1:%d:%d;;127.0.0.1:%d\nserver.2=127.0.0.1:1:2\nversion=%x", ports[0], ports[1], port, version+1))
			if err != nil {
				t.Fatal(err)
			}
			s.inspect(func(*replica.Replica) { s.reconfigure(&replica.Ensembles{InForce: now}) })
			if has {
				listens(t, "the port for TLS", port)
				awaittest.Until(t, "it is where it is said to be", func() bool {
					return s.SecureAddr() != nil && s.SecureAddr().(*net.TCPAddr).Port == port
				})
			}
		}
		var accepts bool
		s.inspect(func(*replica.Replica) { accepts = s.clients[securePort].accepts })
		if opened := secured.Load() == 1; opened != has || accepts != has {
			t.Errorf("with files of TLS %t: it speaks TLS %t, and takes clients %t", has, opened, accepts)
		}
		if s.Addr() == nil {
			t.Error("the port in clear text has gone")
		}
	}
}

// A server that was taken out is added again, with other ports. Until the proposed
// configuration is in force, others know the server from it alone, and the server may have what
// no other has: it listens there as soon as it knows of the proposal.
func TestServerThatIsTakenInListensWhereItIsLookedFor(t *testing.T) {
	ports := freePorts(t, 9)
	in := func(version int64, clients, quorumPort, electionPort int) *ensemble.Config {
		c, err := ensemble.Parse(fmt.Sprintf("server.1=127.0.0.1:%d:%d;127.0.0.1:%d\nserver.2=127.0.0.1:1:2\nversion=%x", quorumPort, electionPort, clients, version))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	out, err := ensemble.Parse("server.2=127.0.0.1:1:2\nversion=2")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.ID, c.Ensemble = 1, in(1, ports[0], ports[1], ports[2])
		c.Listener, c.ClientAddr = nil, fmt.Sprintf("127.0.0.1:%d", ports[0])
	})
	step := func(what string, e *replica.Ensembles, open, closed []int) {
		t.Helper()
		s.inspect(func(*replica.Replica) { s.reconfigure(e) })
		listens(t, what, open...)
		for _, port := range closed {
			awaittest.Until(t, fmt.Sprintf("%s: nobody listens on %d any more", what, port), func() bool { return !answers(port) })
		}
	}
	step("taken out", &replica.Ensembles{InForce: out}, ports[:3], nil)
	step("proposed", &replica.Ensembles{Proposed: in(3, ports[3], ports[4], ports[5])}, []int{ports[0], ports[4], ports[5]}, ports[1:3])
	step("a peer's proposal", &replica.Ensembles{Learned: in(4, ports[6], ports[7], ports[8])}, []int{ports[0], ports[7], ports[8]}, ports[4:6])
	step("in force", &replica.Ensembles{InForce: in(5, ports[3], ports[4], ports[5])}, ports[3:6], []int{ports[0], ports[7], ports[8]})
}

// Goroutines that read from other servers may wait for the loop, which moves the ports: the
// loop must not wait for them in turn.
func TestReconfigMovesThePortsWhileOtherServersWaitForTheLoop(t *testing.T) {
	ports := freePorts(t, 6)
	config := func(quorumPort, electionPort int) *ensemble.Config {
		return twoServers(t, quorumPort, electionPort, ports[4], ports[5])
	}
	before, now := config(ports[0], ports[1]), config(ports[2], ports[3])
	s := start(t, vfs.NewMem(), func(c *Config) { c.ID, c.Ensemble = 1, before })
	s.peerBytes.Add(peerInboxMax + 1) // as if the loop were behind
	said := peerwire.AppendMessage(nil, &zab.Message{Kind: zab.KindFollowerInfo, Hello: zab.Hello{Server: 2}}, peerwire.FromLearner)
	says(t, ports[0], said)
	said, err := peerwire.AppendInitial(nil, peerwire.Initial{Server: 2, Addresses: []peerwire.Address{{Host: "127.0.0.1", Port: uint16(ports[5])}}})
	if err != nil {
		t.Fatal(err)
	}
	said = peerwire.AppendNotification(said, &fle.Notification{State: fle.Looking, Round: 1, Vote: fle.Vote{Leader: 2}})
	says(t, ports[1], said)
	awaittest.Until(t, "a link and a vote wait for the loop", func() bool {
		stacks := make([]byte, 1<<20)
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(").putFromPeer(")) == 2
	})
	moved := make(chan struct{})
	go s.inspect(func(*replica.Replica) {
		s.learn(&addressBook{inForce: now})
		close(moved)
	})
	select {
	case <-moved:
	case <-time.After(time.Minute):
		t.Fatal("the loop waits for what waits for the loop")
	}
	listens(t, "moved", ports[2], ports[3])
}

// listens waits until somebody listens on all of the ports.
func listens(t *testing.T, what string, ports ...int) {
	t.Helper()
	for _, port := range ports {
		awaittest.Until(t, fmt.Sprintf("%s: somebody listens on %d", what, port), func() bool { return answers(port) })
	}
}

// says connects to a port and sends bytes.
func says(t *testing.T, port int, b []byte) {
	t.Helper()
	socket, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	if _, err := socket.Write(b); err != nil {
		t.Fatal(err)
	}
}

func answers(port int) bool {
	socket, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return false
	}
	socket.Close()
	return true
}
