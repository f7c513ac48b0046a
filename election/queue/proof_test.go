package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// slow is a store that takes a second for each renewal and for each proof.
type slow struct {
	*memory
	renewing clock.Instant // when the latest renewal was sent
	// renewed and proved are called before a renewal, or a proof, is answered; nil for nothing.
	renewed, proved func()
}

type slowEntry struct {
	Entry
	of *slow
}

func newSlow() *slow {
	s := &slow{memory: newMemory()}
	s.now = electiontest.VirtualClock(1).Now
	return s
}

func (s *slow) Entry(life context.Context, claim election.Claim) Entry {
	return slowEntry{s.memory.Entry(life, claim), s}
}

func (e slowEntry) Renew(ctx context.Context) (Lease, error) {
	e.of.renewing = e.of.now()
	time.Sleep(time.Second)
	lease, err := e.Entry.Renew(ctx)
	lease.Sent = e.of.renewing
	if e.of.renewed != nil {
		e.of.renewed()
	}
	return lease, err
}

func (e slowEntry) Prove(ctx context.Context, history *History) (Proof, error) {
	time.Sleep(time.Second)
	proof, err := e.Entry.Prove(ctx, history)
	if e.of.proved != nil {
		e.of.proved()
	}
	return proof, err
}

// TestLeaseCountsFromBeforeItsRenewal (queue-Q2): however long the answers take, that of the
// renewal and that of the proof.
func TestLeaseCountsFromBeforeItsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSlow()
		b := New(store, Options{Clock: electiontest.VirtualClock(1)})
		defer b.Close()
		grant, err := b.Acquire(t.Context(), newClaim(0, time.Minute))
		for range 3 {
			if err != nil || grant.Sent > store.renewing {
				t.Fatalf("the lease counts from %v after it was asked for: %v", grant.Sent.Sub(store.renewing), err)
			}
			grant, err = b.Renew(t.Context(), grant)
		}
		if err := b.Release(t.Context(), grant); err != nil {
			t.Error(err)
		}
	})
}

// TestProofIsNewerThanItsRenewal (queue-Q2): a lease that was extended is no grant if the entry
// lost its place meanwhile.
func TestProofIsNewerThanItsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSlow()
		b := New(store, Options{Clock: electiontest.VirtualClock(1)})
		defer b.Close()
		grant, err := b.Acquire(t.Context(), newClaim(0, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		store.renewed = func() {
			_ = store.change("jobs", func(q *line) (bool, error) {
				q.queued()[0].Created = 0 // an operator removes the entry; its lease stays
				return true, nil
			})
		}
		if renewed, err := b.Renew(t.Context(), grant); !errors.Is(err, election.ErrLost) {
			t.Errorf("renewed until %v, %v, though it no longer leads", renewed.Sent.Add(renewed.Lease), err)
		}
		if err := b.Release(t.Context(), grant); err != nil {
			t.Error(err)
		}
	})
}

// TestClaimThatIsReleasedMeanwhileIsNotGranted, even if the store has just said that it leads:
// its entry is removed, and the next one leads.
func TestClaimThatIsReleasedMeanwhileIsNotGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, one := newSlow(), newClaim(0, time.Minute)
		b := New(store, Options{Clock: electiontest.VirtualClock(1)})
		defer b.Close()
		store.proved = func() {
			if err := b.Release(t.Context(), election.Grant{Claim: one}); err != nil {
				t.Error(err)
			}
		}
		if grant, err := b.Acquire(t.Context(), one); err == nil {
			t.Errorf("granted with token %d after its release", grant.Token)
		}
	})
}

// leaving is a store that looks whether anything still runs for a claim that it removes, and
// whether a leader gave up the election itself.
type leaving struct {
	*memory
	runs, left bool
}

type leavingEntry struct {
	Entry
	of   *leaving
	life context.Context
}

func (l *leaving) Entry(life context.Context, claim election.Claim) Entry {
	return leavingEntry{l.memory.Entry(life, claim), l, life}
}

func (e leavingEntry) Leave(ctx context.Context, history *History, successor *Candidate) error {
	e.of.runs = e.of.runs || e.life.Err() == nil
	err := e.Entry.Leave(ctx, history, successor)
	e.of.left = err == nil && history != nil
	return err
}

func (e leavingEntry) Revoke(ctx context.Context) error {
	e.of.runs = e.of.runs || e.life.Err() == nil
	return e.Entry.Revoke(ctx)
}

// TestClaimEndsBeforeItIsRemoved: what waits for it, renews it or watches it would otherwise see
// the removal, and join again or call it a loss. The leader steps down before that: only Leave
// knows the successor, and writes the history in the same decision.
func TestClaimEndsBeforeItIsRemoved(t *testing.T) {
	store := &leaving{memory: newMemory()}
	b := New(store, Options{})
	defer b.Close()
	grant, err := b.Acquire(t.Context(), newClaim(0, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(t.Context(), grant); err != nil || store.runs || !store.left {
		t.Errorf("removed while something runs for it: %v; stepped down before: %v; %v", store.runs, store.left, err)
	}
	select {
	case <-grant.Lost:
		t.Error("a release counts as a loss")
	default:
	}
}
