package queue

import (
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// TestClosedBackendJoinsNothing: nothing would release the entry.
func TestClosedBackendJoinsNothing(t *testing.T) {
	store := newMemory()
	b := New(store, Options{})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), newClaim(0, time.Minute)); !errors.Is(err, election.ErrClosed) {
		t.Errorf("Acquire returned %v", err)
	}
	if len(store.queues) > 0 {
		t.Error("it has asked the store")
	}
}
