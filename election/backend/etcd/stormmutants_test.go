package etcd

import (
	"testing"

	"github.com/conclave-project/conclave/election/backend/internal/queuetest"
	"github.com/conclave-project/conclave/internal/storm"
)

// TestElectionStormsFindMutants puts bugs around candidates and the cluster.
func TestElectionStormsFindMutants(t *testing.T) {
	queuetest.FindMutants(t, []queuetest.Mutant{
		{Name: "lease-too-short", What: "the cluster ends a lease after a quarter of its TTL", Rate: 4},
		{Name: "release-forgotten", What: "a leader that ends keeps its lease", Backend: queuetest.ReleaseNothing},
	}, func(seed uint64, mutant queuetest.Mutant) storm.Played { return newClusterStorm(seed, mutant) })
}
