package record_test

import (
	"context"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/storm"
	"github.com/conclave-project/conclave/internal/storm/records"
)

// recordMutant is a bug around the store or the backend, which do not know of it.
type recordMutant struct {
	name, what string
	backend    func(*storm.Candidate, *record.Backend) election.Backend // nil: unchanged
	blind      bool                                                     // writes do not compare the version
	conflicts  bool                                                     // a write without an answer counts as not made
	impatient  bool                                                     // a candidate waits for only half of the lease
}

var recordMutants = []recordMutant{
	{name: "blind-writes", what: "writes do not compare the version", blind: true},
	{name: "unanswered-is-refused", what: "a write without an answer counts as one that was not made", conflicts: true},
	{name: "impatient", what: "a candidate waits for half of the holder's lease", impatient: true},
	{name: "lease-from-answer", what: "a lease counts from the answer, not from the request",
		backend: func(c *storm.Candidate, b *record.Backend) election.Backend { return lateCount{b, c} }},
	{name: "release-forgotten", what: "a leader that ends leaves its claim in the record",
		backend: func(_ *storm.Candidate, b *record.Backend) election.Backend { return keepsClaim{b} }},
	{name: "release-unanswered", what: "a release without an answer counts as done",
		backend: func(_ *storm.Candidate, b *record.Backend) election.Backend { return releasesOnce{b} }},
}

// mutantStore is a store as some mutants see it.
type mutantStore struct {
	records.Store
	mutant recordMutant
}

func (m mutantStore) Read(ctx context.Context, name string) (record.Record, string, error) {
	r, version, err := m.Store.Read(ctx, name)
	if m.mutant.impatient {
		r.LeaseMs /= 2
	}
	return r, version, err
}

func (m mutantStore) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	after, err := m.Store.Write(ctx, name, r, version)
	if err != nil && m.mutant.conflicts {
		err = record.ErrConflict
	}
	return after, err
}

// lateCount counts leases from the answer.
type lateCount struct {
	*record.Backend
	c *storm.Candidate
}

func (l lateCount) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	grant, err := l.Backend.Acquire(ctx, claim)
	grant.Sent = l.c.Clock.Now()
	return grant, err
}

func (l lateCount) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	renewed, err := l.Backend.Renew(ctx, grant)
	if err == nil {
		renewed.Sent = l.c.Clock.Now()
	}
	return renewed, err
}

// keepsClaim releases nothing.
type keepsClaim struct{ *record.Backend }

func (keepsClaim) Release(context.Context, election.Grant) error { return nil }

// releasesOnce releases once.
type releasesOnce struct{ *record.Backend }

func (h releasesOnce) Release(ctx context.Context, grant election.Grant) error {
	_ = h.Backend.Release(ctx, grant)
	return nil
}

// TestRecordStormsFindMutants puts bugs around candidates and the store.
func TestRecordStormsFindMutants(t *testing.T) {
	for _, mutant := range recordMutants {
		t.Run(mutant.name, func(t *testing.T) {
			storm.Finds(t, mutant.what, 400, func(_ *testing.T, seed uint64) storm.Played { return newRecordStorm(seed, mutant, false) })
		})
	}
}
