package azureblob

import (
	"context"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/storm"
)

// blobMutant is a bug around the service or the backend, which are not aware of it.
type blobMutant struct {
	name, what string
	backend    func(*Backend) election.Backend // nil: unchanged
	rate       float64                         // of the service's clock, 0: unchanged
	blind      bool                            // writes do not compare the ETag
}

var blobMutants = []blobMutant{
	{name: "lease-too-short", what: "the service ends a lease after half of it", rate: 2},
	{name: "blind-writes", what: "writes do not compare the ETag", blind: true},
	{name: "lease-from-answer", what: "a lease counts from the answer, not from the request",
		backend: func(b *Backend) election.Backend { return lateCount{b} }},
	{name: "release-forgotten", what: "a leader that ends keeps its lease",
		backend: func(b *Backend) election.Backend { return keeper{b} }},
	{name: "id-reused", what: "all claims of a candidate have one lease id",
		backend: func(b *Backend) election.Backend { return sameID{b} }},
}

// lateCount counts leases from the arrival of the answer.
type lateCount struct{ *Backend }

func (l lateCount) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	grant, err := l.Backend.Acquire(ctx, claim)
	grant.Sent = l.now()
	return grant, err
}

func (l lateCount) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	renewed, err := l.Backend.Renew(ctx, grant)
	if err == nil {
		renewed.Sent = l.now()
	}
	return renewed, err
}

// keeper never releases anything.
type keeper struct{ *Backend }

func (keeper) Release(context.Context, election.Grant) error { return nil }

// sameID uses one nonce for all its claims.
type sameID struct{ *Backend }

func (s sameID) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	claim.Nonce = leaseNonce(claim.ID)
	return s.Backend.Acquire(ctx, claim)
}

func (s sameID) Release(ctx context.Context, grant election.Grant) error {
	grant.Claim.Nonce = leaseNonce(grant.Claim.ID)
	return s.Backend.Release(ctx, grant)
}

func leaseNonce(id string) string { return ("0123456789abcdef0123456789abcdef" + id)[len(id):] }

// TestElectionStormsFindMutants puts bugs around candidates and the service.
func TestElectionStormsFindMutants(t *testing.T) {
	for _, mutant := range blobMutants {
		t.Run(mutant.name, func(t *testing.T) {
			storm.Finds(t, mutant.what, 240, func(_ *testing.T, seed uint64) storm.Played { return newBlobStorm(seed, mutant) })
		})
	}
}
