package consul

import (
	"testing"

	"github.com/conclave-project/conclave/election/backend/internal/queuetest"
	"github.com/conclave-project/conclave/internal/storm"
)

// TestElectionStormsFindMutants puts bugs around candidates and the agent.
func TestElectionStormsFindMutants(t *testing.T) {
	queuetest.FindMutants(t, []queuetest.Mutant{
		{Name: "session-too-short", What: "the agent ends a session after half of its TTL", Rate: 4},
		{Name: "release-forgotten", What: "a leader that ends keeps its session", Backend: queuetest.ReleaseNothing},
	}, func(seed uint64, mutant queuetest.Mutant) storm.Played { return newAgentStorm(seed, mutant) })
}
