package electiontest_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

var elections = flag.Int("elections", 2000, "how many elections a simulation simulates")

// remote is a candidate's backend on a store that expires leases by its own
// clock, as etcd, Consul, ZooKeeper and the leases of Azure do. A grant is
// proved by a renewal that this candidate sent at a time known by its own clock.
type remote struct {
	*electiontest.Store
	link *electiontest.BadLink
}

func (r remote) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	type answer struct {
		grant election.Grant
		err   error
	}
	got := make(chan answer, 1)
	if err := r.link.Pass(ctx, func() {
		grant, err := r.Store.Acquire(ctx, claim)
		got <- answer{grant, err}
	}); err != nil {
		return election.Grant{}, err
	}
	a := <-got
	if a.err != nil {
		return election.Grant{}, a.err
	}
	return r.Renew(ctx, a.grant)
}

func (r remote) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	sent := r.link.Clock.Now()
	type answer struct {
		grant election.Grant
		err   error
	}
	got := make(chan answer, 1)
	if err := r.link.Pass(ctx, func() {
		renewed, err := r.Store.Renew(context.WithoutCancel(ctx), grant)
		got <- answer{renewed, err}
	}); err != nil {
		return grant, err
	}
	a := <-got
	a.grant.Sent = sent
	return a.grant, a.err
}

func (r remote) Release(ctx context.Context, grant election.Grant) error {
	answer := make(chan error, 1)
	if err := r.link.Pass(ctx, func() { answer <- r.Store.Release(context.WithoutCancel(ctx), grant) }); err != nil {
		return err
	}
	return <-answer
}

// TestServerSideLeasesOverABadNetwork (scenario-E02,
// scenario-E04, scenario-E08, scenario-E09, scenario-E14).
func TestServerSideLeasesOverABadNetwork(t *testing.T) {
	var store *electiontest.Store
	electiontest.Simulate(t, electiontest.Simulation{
		Elections: *elections,
		Begin: func() func(*electiontest.BadLink) election.Backend {
			store = electiontest.NewStore(electiontest.VirtualClock(1))
			return func(link *electiontest.BadLink) election.Backend { return remote{store, link} }
		},
		Meddle: func(rng *rand.Rand) {
			_ = store.Ask(context.Background(), "simulated", election.Request{})
		},
	})
}
