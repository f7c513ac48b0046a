package etcd

import (
	"context"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/storm"
)

// clusterMutant is a bug around the cluster or the backend, which know nothing of it.
type clusterMutant struct {
	name, what string
	backend    func(*queue.Backend) election.Backend // nil: as it is
	rate       float64                               // of the cluster's clock, 0: as it is
}

var clusterMutants = []clusterMutant{
	{name: "lease-too-short", what: "the cluster ends a lease after a quarter of its TTL", rate: 4},
	{name: "release-forgotten", what: "a leader that ends keeps its lease",
		backend: func(b *queue.Backend) election.Backend { return keeper{b} }},
}

// keeper releases nothing.
type keeper struct{ *queue.Backend }

func (keeper) Release(context.Context, election.Grant) error { return nil }

// TestElectionStormsFindMutants puts bugs around candidates and the cluster.
func TestElectionStormsFindMutants(t *testing.T) {
	for _, mutant := range clusterMutants {
		t.Run(mutant.name, func(t *testing.T) {
			storm.Finds(t, mutant.what, 60, func(_ *testing.T, seed uint64) storm.Played { return newClusterStorm(seed, mutant) })
		})
	}
}
