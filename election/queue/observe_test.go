package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// witness remembers for how long an observer was asked to live.
type witness struct {
	*memory
	life context.Context
}

func (w *witness) Observe(life context.Context, name string) Observer {
	w.life = life
	return w.memory.Observe(life, name)
}

// TestObserverThatIsLeftEarlyLeavesNothing: a program that asks who leads, again and again with
// the context of its life, accumulates no watches.
func TestObserverThatIsLeftEarlyLeavesNothing(t *testing.T) {
	w := &witness{memory: newMemory()}
	for _, err := range New(w, Options{}).Observe(awaittest.Within(t), "e") {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if w.life.Err() == nil {
		t.Error("what shows the election lives on")
	}
}

// changing is a store that has always changed by the time it is asked.
type changing struct {
	*memory
	asked int
}

func (c *changing) Ask(context.Context, string, Holder, election.Request) error {
	if c.asked++; c.asked > 100 {
		return errors.New("asked without a pause")
	}
	return ErrConflict
}

// TestAskPausesWhereTheStoreHasChanged: the store is asked again, but not as fast as it
// answers.
func TestAskPausesWhereTheStoreHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &changing{memory: newMemory()}
		c.now = electiontest.VirtualClock(1).Now
		b := New(c, Options{Clock: electiontest.VirtualClock(1)})
		defer b.Close()
		grant, err := b.Acquire(t.Context(), newClaim(0, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*pause)
		defer cancel()
		if err := b.Ask(ctx, "jobs", election.Request{}); err == nil || c.asked > 11 {
			t.Errorf("asked %d times: %v", c.asked, err)
		}
		_ = b.Release(t.Context(), grant)
	})
}

// TestClosedBackendIsObservedNoMore: a program that waits for a leader in a closed store would
// wait forever, and observers would accumulate.
func TestClosedBackendIsObservedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(newMemory(), Options{Clock: electiontest.VirtualClock(1)})
		e, err := election.New(b, "jobs", election.Options{Clock: electiontest.VirtualClock(1)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { _, err := e.WaitLeader(ctx); ended <- err }()
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, election.ErrClosed) {
			t.Errorf("one that waited ends with %v", err)
		}
		if _, err := e.WaitLeader(ctx); !errors.Is(err, election.ErrClosed) {
			t.Errorf("one that comes later ends with %v", err)
		}
	})
}
