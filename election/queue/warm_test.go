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

// TestCandidateThatDidNotWarmUpIsAskedAgain when it is nominated again, whether it
// failed or was told to end; one that has warmed up is not.
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
