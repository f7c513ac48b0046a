package record_test

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	virtual "github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm"
	"github.com/conclave-project/conclave/internal/storm/records"
)

// Candidates and members of groups use records in memory, each over a link of its own and with
// a clock of its own, as wrong as clocks may be. Requests arrive late, even when nobody waits
// for them any more; requests or their answers are lost; watches lag, end, or are lost in
// silence; links are cut. Candidates vanish, or leave for a while and come back over the same
// backend, even in the middle of a hand-over, and operators ask for hand-overs. Package storm
// says what is judged. TestWholeCandidatesUnderFaults covers stores that forget, and user code
// that hangs.
func TestRecordsThroughStorms(t *testing.T) {
	storm.Through(t, 20, func(_ *testing.T, seed uint64) storm.Played { return newRecordStorm(seed, recordMutant{}, false) })
}

// TestGroupsThroughStorms makes the candidates members of a group as well.
func TestGroupsThroughStorms(t *testing.T) {
	storm.Through(t, 3, func(_ *testing.T, seed uint64) storm.Played { return newRecordStorm(seed, recordMutant{}, true) })
}

// recordStorm is a store, and candidates over links to it.
type recordStorm struct {
	*storm.Links
	mutant recordMutant
	store  *record.Memory
}

func newRecordStorm(seed uint64, mutant recordMutant, grouped bool) *recordStorm {
	w, s := &recordStorm{mutant: mutant, store: record.NewMemory(virtual.Clock(1))}, storm.New(seed, grouped)
	s.Observer = record.New(w.store, record.Options{Clock: virtual.Clock(1)})
	w.Links = s.Linked(100, 1000, w.open)
	return w
}

// Play implements storm.Played.
func (w *recordStorm) Play(faults int) {
	w.Rage(faults, func() {})
	w.Judge()
}

// open returns the backend of a candidate.
func (w *recordStorm) open(c *storm.Candidate, link *virtual.Link) (election.Backend, func() error) {
	over := records.Store{Memory: w.store, Link: link, Answered: c.Answered, Written: w.stands, Blind: w.mutant.blind}
	var store record.Store = over
	if w.mutant.impatient || w.mutant.conflicts {
		store = mutantStore{over, w.mutant}
	}
	if c.Machine%2 == 0 {
		store = pollingStore{store, w.Lease / 10}
	}
	b := record.New(store, record.Options{Clock: c.Clock})
	if w.mutant.backend != nil {
		return w.mutant.backend(c, b), b.Close
	}
	return b, b.Close
}

// stands shows what was written last.
func (w *recordStorm) stands(r record.Record) {
	w.Stands(r.Nonce)
	if r.Next != nil {
		w.Stands(r.Next.Nonce)
	}
}

// pollingStore is a store without watches.
type pollingStore struct {
	record.Store
	pause time.Duration
}

// Wait sleeps for its pause between polls.
func (p pollingStore) Wait(ctx context.Context, _, _ string, limit time.Duration) error {
	timer := time.NewTimer(min(limit, p.pause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
