package consul

import (
	"context"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/storm"
)

// agentMutant is a bug around the agent or the backend, which know nothing of it.
type agentMutant struct {
	name, what string
	backend    func(*queue.Backend) election.Backend // nil: as it is
	rate       float64                               // of the agent's clock, 0: as it is
}

var agentMutants = []agentMutant{
	{name: "session-too-short", what: "the agent ends a session after half of its TTL", rate: 4},
	{name: "release-forgotten", what: "a leader that ends keeps its session",
		backend: func(b *queue.Backend) election.Backend { return keeper{b} }},
}

// keeper releases nothing.
type keeper struct{ *queue.Backend }

func (keeper) Release(context.Context, election.Grant) error { return nil }

// TestElectionStormsFindMutants puts bugs around candidates and the agent.
func TestElectionStormsFindMutants(t *testing.T) {
	for _, mutant := range agentMutants {
		t.Run(mutant.name, func(t *testing.T) {
			storm.Finds(t, mutant.what, 60, func(_ *testing.T, seed uint64) storm.Played { return newAgentStorm(seed, mutant) })
		})
	}
}
