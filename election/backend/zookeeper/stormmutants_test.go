package zookeeper_test

import (
	"context"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/storm"
)

// stormMutant is a bug around candidates or servers, which are not aware of it.
type stormMutant struct {
	name, what string
	backend    func(machine int, b *queue.Backend) election.Backend // nil: unchanged
	serverRate float64                                              // of the servers' clocks, 0: unchanged
}

var stormMutants = []stormMutant{
	{name: "lease-too-long", what: "a backend grants half as much again as a session lasts",
		backend: func(_ int, b *queue.Backend) election.Backend {
			return altered{b, func(g *election.Grant) { g.Lease *= 2 }}
		}},
	{name: "session-too-short", what: "servers expire a session after half its timeout", serverRate: 2},
	{name: "tokens-apart", what: "every other candidate counts its tokens by itself",
		backend: func(machine int, b *queue.Backend) election.Backend {
			flip := election.Token(machine%2) << 60
			return altered{b, func(g *election.Grant) {
				if g.Token != 0 {
					g.Token ^= flip
				}
			}}
		}},
	{name: "release-forgotten", what: "a leader that ends leaves its place in the queue",
		backend: func(_ int, b *queue.Backend) election.Backend { return keeper{b} }},
}

// altered changes what its backend grants, and hides the change from the backend.
type altered struct {
	*queue.Backend
	change func(*election.Grant) // its own inverse for tokens
}

func (a altered) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	grant, err := a.Backend.Acquire(ctx, claim)
	a.change(&grant)
	return grant, err
}

func (a altered) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	a.change(&grant)
	grant, err := a.Backend.Renew(ctx, grant)
	a.change(&grant)
	return grant, err
}

func (a altered) Release(ctx context.Context, grant election.Grant) error {
	a.change(&grant)
	return a.Backend.Release(ctx, grant)
}

// keeper never releases anything.
type keeper struct{ *queue.Backend }

func (keeper) Release(context.Context, election.Grant) error { return nil }

// TestElectionStormsFindMutants puts bugs around candidates and servers.
func TestElectionStormsFindMutants(t *testing.T) {
	for i := range stormMutants {
		mutant := &stormMutants[i]
		t.Run(mutant.name, func(t *testing.T) {
			storm.Finds(t, mutant.what, 20, func(t *testing.T, seed uint64) storm.Played { return newServersStorm(t, seed, mutant, false) })
		})
	}
}
