package server

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
)

// freePorts returns different ports on which nobody listens.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for len(ports) < n {
		if port := childtest.Port(t); !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports
}

// A reconfig may move one of a server's ports and leave the other where it is.
func TestReconfigMovesEachPortForServersByItself(t *testing.T) {
	ports := freePorts(t, 6)
	config := func(quorumPort, electionPort int) *ensemble.Config {
		c, err := ensemble.Parse(fmt.Sprintf("server.1=127.0.0.1:%d:%d\nserver.2=127.0.0.1:%d:%d\n", quorumPort, electionPort, ports[4], ports[5]))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	q, e := ports[0], ports[2]
	s := start(t, vfs.NewMem(), func(c *Config) { c.ID, c.Ensemble = 1, config(q, e) })
	for _, to := range [][2]int{{ports[1], e}, {ports[1], ports[3]}, {q, e}} {
		before, now := config(q, e).Member(1), config(to[0], to[1]).Member(1)
		if !s.inspect(func(*replica.Replica) { s.move(before, now) }) {
			t.Fatal("the loop has ended")
		}
		for _, port := range to {
			if !answers(port) {
				t.Errorf("from %d:%d to %d:%d: nobody listens on %d", q, e, to[0], to[1], port)
			}
		}
		for i, old := range []int{q, e} {
			if old != to[i] {
				eventually(t, fmt.Sprintf("nobody listens on %d any more", old), func() bool { return !answers(old) })
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
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.ID, c.Ensemble = 1, now // as the replica has it after the step
		c.QuorumAddr, c.ElectionAddr = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	})
	s.inspect(func(*replica.Replica) {
		s.peers.known.Store(&addressBook{inForce: before})
		s.reconfigure(&replica.Ensembles{Proposed: now, InForce: now})
	})
	if !answers(ports[2]) || !answers(ports[3]) {
		t.Error("nobody listens on the new ports")
	}
	eventually(t, "nobody listens on the old ports", func() bool { return !answers(ports[0]) && !answers(ports[1]) })
}

func answers(port int) bool {
	socket, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return false
	}
	socket.Close()
	return true
}
