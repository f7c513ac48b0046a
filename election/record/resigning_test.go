package record_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/bubble"
)

// polled is a store that reports no changes: a leader looks when it renews.
type polled struct{ *record.Memory }

func (polled) Watches() bool { return false }

// TestRequestToResignIsNotLostToALaterOne: two operators send requests before the leader looks.
func TestRequestToResignIsNotLostToALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.Clock(1)
		store := polled{record.NewMemory(c)}
		backend, _ := process(t, c, store, "other")
		ended := make(chan error, 1)
		e, err := election.New(backend, "e", election.Options{ID: "leader", Lease: tryLease, Clock: c, Once: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*tryLease)
		defer cancel()
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, _ election.Leadership) error { <-ctx.Done(); return nil })
		}()
		synctest.Wait()
		one, _ := process(t, c, store, "one")
		two, _ := process(t, c, store, "two")
		if err := one.Ask(ctx, "e", election.Request{By: "one", Transfer: "nobody"}); err != nil {
			t.Fatal(err)
		}
		if err := one.Ask(ctx, "e", election.Request{By: "one"}); err != nil {
			t.Fatalf("a request to resign after one for a transfer: %v", err)
		}
		if err := two.Ask(ctx, "e", election.Request{By: "two", Transfer: "nobody"}); !errors.Is(err, election.ErrResigning) {
			t.Errorf("a transfer is asked for beside a request to resign: %v", err)
		}
		if err := two.Ask(ctx, "e", election.Request{By: "two"}); err != nil {
			t.Errorf("it is asked to resign again: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("it has not resigned: %v", err)
		}
	})
}
