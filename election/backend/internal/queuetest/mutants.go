package queuetest

import (
	"context"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/storm"
)

// Mutant is a bug in a store in memory or in its backend, added from outside.
type Mutant struct {
	Name, What string
	Backend    func(*queue.Backend) election.Backend // wraps the backend; nil leaves it unchanged
	Rate       float64                               // rate of the store's clock; 0 leaves it unchanged
}

// FindMutants fails the test if 60 storms do not find every mutant.
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
