package queuetest

import (
	"context"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/storm"
)

// Mutant is a bug around a store in memory or its backend, which know nothing of it.
type Mutant struct {
	Name, What string
	Backend    func(*queue.Backend) election.Backend // nil: as it is
	Rate       float64                               // of the store's clock, 0: as it is
}

// FindMutants fails the test if 60 storms do not find one of the mutants.
func FindMutants(t *testing.T, mutants []Mutant, begin func(seed uint64, mutant Mutant) storm.Played) {
	for _, mutant := range mutants {
		t.Run(mutant.Name, func(t *testing.T) {
			storm.Finds(t, mutant.What, 60, func(_ *testing.T, seed uint64) storm.Played { return begin(seed, mutant) })
		})
	}
}

// ReleaseNothing is a backend whose releases do nothing.
func ReleaseNothing(b *queue.Backend) election.Backend { return keeper{b} }

type keeper struct{ *queue.Backend }

func (keeper) Release(context.Context, election.Grant) error { return nil }
