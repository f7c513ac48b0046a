package queue

import (
	"context"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/storm"
)

// queueMutant is a bug around the store or the backend, which do not know of it.
type queueMutant struct {
	name, what string
	backend    func(*Backend) election.Backend // nil: unchanged
	storeRate  float64                         // of the store's clock, 0: unchanged
	late       bool                            // a lease counts from the answer
	trusts     bool                            // a request without an answer counts as done
	stays      bool                            // an entry needs no lease to enter again
}

var queueMutants = []queueMutant{
	{name: "lease-from-answer", what: "a lease counts from the answer, not from the request", late: true},
	{name: "unanswered-trusted", what: "a request without an answer counts as done", trusts: true},
	{name: "lease-too-short", what: "the store ends a lease after half of it", storeRate: 2},
	{name: "entry-outlives-its-claim", what: "an entry whose claim was released comes into the queue by a request that was late", stays: true},
	{name: "release-forgotten", what: "a leader that ends leaves its place in the queue",
		backend: func(b *Backend) election.Backend { return keeper{b} }},
	{name: "token-reused", what: "a leadership has the token of the one before",
		backend: func(b *Backend) election.Backend { return stale{b} }},
}

// keeper releases nothing.
type keeper struct{ *Backend }

func (keeper) Release(context.Context, election.Grant) error { return nil }

// stale counts tokens in tens.
type stale struct{ *Backend }

func (s stale) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	grant, err := s.Backend.Acquire(ctx, claim)
	grant.Token = max(1, grant.Token/1000*1000)
	return grant, err
}

func (s stale) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	token := grant.Token
	grant, err := s.Backend.Renew(ctx, grant)
	grant.Token = token
	return grant, err
}

// TestQueueStormsFindMutants puts bugs around candidates and the store.
func TestQueueStormsFindMutants(t *testing.T) {
	for _, mutant := range queueMutants {
		t.Run(mutant.name, func(t *testing.T) {
			storm.Finds(t, mutant.what, 400, func(_ *testing.T, seed uint64) storm.Played { return newQueueStorm(seed, mutant, false) })
		})
	}
}
