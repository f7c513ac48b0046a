package server

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
)

// A notification tells a server that was away of the configuration in force and of the next
// one, in one step. Afterwards it must be able to find the servers of the next one.
func TestOlderConfigurationInForceLeavesTheNewerOneKnown(t *testing.T) {
	ports := freePorts(t, 2)
	config := func(version int, more string) *ensemble.Config {
		c, err := ensemble.Parse(fmt.Sprintf("server.1=127.0.0.1:%d:%d\nserver.2=127.0.0.1:1:2\n%sversion=%x\n", ports[0], ports[1], more, version))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c0, c1, c2 := config(0, ""), config(5, "server.3=127.0.0.1:3:4\n"), config(9, "server.4=127.0.0.1:5:6\n")
	s := start(t, vfs.NewMem(), func(c *Config) { c.ID, c.Ensemble = 1, c0 })
	s.inspect(func(*replica.Replica) {
		s.reconfigure(&replica.Ensembles{Learned: c2, InForce: c1})
		if s.peers.electionAddresses(4) == nil {
			t.Error("server 4 of the configuration that a peer has is nowhere")
		}
		s.reconfigure(&replica.Ensembles{Proposed: c2})
		s.reconfigure(&replica.Ensembles{InForce: c1})
		if s.peers.electionAddresses(4) == nil {
			t.Error("server 4 of the proposed configuration is nowhere")
		}
	})
}
