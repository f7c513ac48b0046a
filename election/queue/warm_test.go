package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// answering is the entry of a waiter whose answers all arrive.
type answering struct{ Entry }

func (answering) Answer(context.Context, Nomination) error { return nil }

// TestCandidateThatDidNotWarmUpIsAskedAgain when it is nominated again, whether it failed or
// was told to end. A candidate that has warmed up is not asked again.
func TestCandidateThatDidNotWarmUpIsAskedAgain(t *testing.T) {
	asked, calls := make(chan int), 0
	one := election.Claim{Lease: 10 * time.Second}
	one.Warm = func(ctx context.Context) error {
		calls++
		asked <- calls
		switch calls {
		case 1:
			return errors.New("not ready")
		case 2:
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	w := &waiter{backend: New(nil, Options{}), claim: &claim{Claim: one, entry: answering{}}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 3 {
		w.warm(ctx, Nomination{Round: fmt.Sprint(i + 1)})
		select {
		case n := <-asked:
			if n != i+1 {
				t.Fatalf("nominated for the time %d and asked for the time %d", i+1, n)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nominated for the time %d and not asked to warm up: it says that it is ready", i+1)
		}
	}
	cancel()
	<-w.warmUp.done
	if err := w.warmUp.run(t.Context(), one.Warm); err != nil || calls != 3 {
		t.Errorf("one that has warmed up was asked again: %d times, %v", calls, err)
	}
}

// TestCloseWaitsForNoWarmUp: the function is the user's, and may never return.
func TestCloseWaitsForNoWarmUp(t *testing.T) {
	store := newMemory()
	b1, b2 := New(store, Options{}), New(store, Options{})
	one := func(id string, warm func(context.Context) error) election.Claim {
		return election.Claim{Election: "x", ID: id, Nonce: fmt.Sprintf("%032s", id), Lease: time.Minute, Warm: warm}
	}
	grant, err := b1.Acquire(t.Context(), one("a", nil))
	if err != nil {
		t.Fatal(err)
	}
	begun, never := make(chan struct{}), make(chan struct{})
	defer close(never)
	go func() {
		_, _ = b2.Acquire(t.Context(), one("b", func(context.Context) error { close(begun); <-never; return nil }))
	}()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil && errors.Is(b1.Nominate(ctx, grant, "b"), election.ErrNoCandidate) {
			Pause(ctx)
		}
	}()
	<-begun
	closed := make(chan error, 1)
	go func() { closed <- b2.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Close waits for a warm-up")
	}
}
