package record_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
)

// forget writes the record as a program does that does not know metadata: it reads what it
// knows and writes only that back.
func forget(t *testing.T, store *record.Memory, name string) {
	t.Helper()
	for {
		r, version, err := store.Read(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		r.Metadata = nil
		if r.Next != nil {
			next := *r.Next
			next.Metadata = nil
			r.Next = &next
		}
		r.Touch++
		if _, err := store.Write(t.Context(), name, r, version); err == nil {
			return
		}
	}
}

// TestMetadataComesBackAfterAnOlderProgram: a candidate or an operator with a version that does
// not know metadata removes it from the record with any write. The leader and the successor
// restore it with their next heartbeat.
func TestMetadataComesBackAfterAnOlderProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		store := record.NewMemory(c)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for _, id := range []string{"a", "b"} {
			e, err := election.New(record.New(store, record.Options{Clock: c}), "jobs",
				election.Options{ID: id, Metadata: []byte("of " + id), Lease: time.Second, Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				ended <- e.Run(ctx, func(ctx context.Context, _ election.Leadership) error { <-ctx.Done(); return nil })
			}()
			time.Sleep(100 * time.Millisecond)
		}
		observer := record.New(store, record.Options{Clock: c})
		look := func(what string, leader, waiter string) {
			t.Helper()
			for view := range observer.Observe(ctx, "jobs") {
				if len(view.Waiters) != 1 || string(view.Metadata) != leader || string(view.Waiters[0].Metadata) != waiter {
					t.Errorf("%s: %+v", what, view)
				}
				break
			}
		}
		look("before", "of a", "of b")
		forget(t, store, "jobs")
		look("at once", "", "")
		time.Sleep(time.Second)
		look("a lease later", "of a", "of b")
		cancel()
		<-ended
		<-ended
	})
}
