package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// unsteady is a store that answers some of the questions for a place as a test says.
type unsteady struct {
	*memory
	place func(ctx context.Context) error // nil: the store answers
}

type unsteadyEntry struct {
	Entry
	of *unsteady
}

func (u *unsteady) Entry(life context.Context, claim election.Claim) Entry {
	return unsteadyEntry{u.memory.Entry(life, claim), u}
}

func (e unsteadyEntry) Place(ctx context.Context) (Place, error) {
	if err := e.of.place(ctx); err != nil {
		return Place{}, err
	}
	return e.Entry.Place(ctx)
}

// TestWaiterOutlastsAStoreInTrouble: it keeps its place and its lease (queue-Q1), whether the
// store hangs or refuses for a moment, even after the waiter has waited for hours.
func TestWaiterOutlastsAStoreInTrouble(t *testing.T) {
	for what, place := range map[string]func(context.Context) error{
		"hangs":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"refuses": func(context.Context) error { return errDown },
	} {
		t.Run(what, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { outlast(t, place) }) })
	}
}

func outlast(t *testing.T, place func(context.Context) error) {
	c := electiontest.VirtualClock(1)
	var trouble atomic.Bool
	store := &unsteady{memory: newMemory()}
	store.now = c.Now
	store.place = func(ctx context.Context) error {
		if trouble.Swap(false) {
			return place(ctx)
		}
		return nil
	}
	b := New(store, Options{Clock: c})
	defer b.Close()
	leader, err := b.Acquire(t.Context(), newClaim(0, 1000*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	const lease = 10 * time.Second
	granted := make(chan error, 1)
	go func() {
		grant, err := b.Acquire(t.Context(), newClaim(1, lease))
		if err == nil {
			err = b.Release(t.Context(), grant)
		}
		granted <- err
	}()
	time.Sleep(time.Hour)
	trouble.Store(true)
	time.Sleep(3 * lease)
	if err := b.Release(t.Context(), leader); err != nil || trouble.Load() {
		t.Fatalf("the store was not asked: %v, %v", trouble.Load(), err)
	}
	if err := <-granted; err != nil {
		t.Errorf("the waiter has ended: %v", err)
	}
}

// TestWarmUpsNeverOverlap (queue-Q5), even if one goes on after it was told to end.
func TestWarmUpsNeverOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, calls := 0, 0
		one := election.Claim{Lease: 10 * time.Second}
		one.Warm = func(context.Context) error {
			if running++; running > 1 {
				t.Errorf("%d warm-ups run at once", running)
			}
			time.Sleep(time.Second)
			running--
			calls++
			return context.Canceled
		}
		w := &waiter{backend: New(nil, Options{}), claim: &claim{Claim: one, entry: answering{}}}
		for i := range 3 {
			w.warm(t.Context(), Nomination{Round: fmt.Sprint(i + 1)})
			synctest.Wait()
		}
		<-w.warmUp.done
		if calls == 0 {
			t.Error("it was never asked to warm up")
		}
	})
}
