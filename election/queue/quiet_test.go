package queue

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// told is a store whose watches report what a test says, as time passes.
type told struct {
	*memory
	entry *toldEntry
}

// toldEntry waits behind a leader. Each Wait lasts to its limit, on the test's clock, and ends
// as next says.
type toldEntry struct {
	Entry
	now            *clock.Instant
	next           func(wait int) (quiet bool, err error)
	waits          int
	quiet          bool
	places, renews []int // as determined by the waits before them
}

func (s told) Entry(life context.Context, claim election.Claim) Entry {
	if claim.ID == "c0" { // the leader
		return s.memory.Entry(life, claim)
	}
	s.entry.Entry = s.memory.Entry(life, claim)
	return s.entry
}

func (e *toldEntry) Place(context.Context) (Place, error) {
	e.places = append(e.places, e.waits)
	return Place{Standing: Queued}, nil
}

func (e *toldEntry) Renew(ctx context.Context) (Lease, error) {
	e.renews = append(e.renews, e.waits)
	return Lease{Sent: *e.now, Length: 10 * time.Second}, nil
}

func (e *toldEntry) Create(ctx context.Context) (Lease, error) {
	_, err := e.Entry.Create(ctx)
	return Lease{Sent: *e.now, Length: 10 * time.Second}, err
}

func (e *toldEntry) Wait(_ context.Context, limit time.Duration) (err error) {
	*e.now = e.now.Add(limit)
	e.waits++
	e.quiet, err = e.next(e.waits)
	return err
}

func (e *toldEntry) Quiet() bool { return e.quiet }

// wait lets a candidate wait the given number of times, and returns its entry.
func wait(t *testing.T, times int, next func(wait int) (bool, error)) *toldEntry {
	t.Helper()
	now := clock.Instant(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := &toldEntry{now: &now}
	e.next = func(wait int) (bool, error) {
		if wait == times {
			cancel()
		}
		return next(wait)
	}
	b := New(told{newMemory(), e}, Options{})
	b.now = func() clock.Instant { return now }
	if _, err := b.Acquire(ctx, newClaim(1, 10*time.Second)); err == nil || ctx.Err() == nil {
		t.Fatalf("Acquire returned %v before it was told to end", err)
	}
	return e
}

// TestQuietWaiterRenewsWithoutALook: otherwise a hundred waiters would read as often as they
// renew. Once per lease they look all the same, because a watch may be lost in silence.
func TestQuietWaiterRenewsWithoutALook(t *testing.T) {
	e := wait(t, 31, func(int) (bool, error) { return true, nil })
	if len(e.renews) != 30 {
		t.Errorf("%d renewals after 30 waits for a third of the lease", len(e.renews))
	}
	if len(e.places) < 8 || len(e.places) > 11 {
		t.Errorf("%d looks in ten leases in which nothing has come: before waits %v", len(e.places), e.places)
	}
}

// TestWaiterLooksWhenSomethingHasCome, and after its watch has failed.
func TestWaiterLooksWhenSomethingHasCome(t *testing.T) {
	e := wait(t, 9, func(int) (bool, error) { return false, nil })
	if len(e.places) != 9 {
		t.Errorf("%d looks at 9 waits that have ended for something", len(e.places))
	}
	e = wait(t, 3, func(wait int) (bool, error) {
		if wait == 1 {
			return true, errDown
		}
		return true, nil
	})
	if len(e.places) < 2 || e.places[1] != 1 {
		t.Errorf("after a watch that has failed it does not look: looks before waits %v", e.places)
	}
}
