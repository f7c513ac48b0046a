package record_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/bubble"
)

// TestRunEndsSoonWhileTheStoreIsDown, for a leader and for a candidate that waits, whatever
// lease was asked for: what is not released expires, and somebody waits for Run to end.
func TestRunEndsSoonWhileTheStoreIsDown(t *testing.T) {
	for _, lease := range []time.Duration{10 * time.Second, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			took, asked := endOfRun(t, lease, func(_ *record.Backend, d *down) { d.down.Store(true) })
			if took > 11*time.Second {
				t.Errorf("lease %v: the last Run returned %v after its context ended", lease, took)
			}
			if asked < 20 {
				t.Errorf("lease %v: the store was asked %d times, not again and again", lease, asked)
			}
		})
	}
}

// TestRunEndsAtOnceWhenItsBackendIsClosed, because nothing can be released any more.
func TestRunEndsAtOnceWhenItsBackendIsClosed(t *testing.T) {
	for _, lease := range []time.Duration{10 * time.Second, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			took, _ := endOfRun(t, lease, func(b *record.Backend, _ *down) { _ = b.Close() })
			if took > time.Second {
				t.Errorf("lease %v: the last Run returned %v after the backend was closed and its context ended", lease, took)
			}
		})
	}
}

// endOfRun lets one candidate lead and another wait, makes the store fail, ends their contexts,
// and returns how long they took, and how often the store was asked again.
func endOfRun(t *testing.T, lease time.Duration, fail func(*record.Backend, *down)) (took time.Duration, asked int64) {
	t.Helper()
	c := bubble.Clock(1)
	store := &down{Memory: record.NewMemory(c)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var backends []*record.Backend
	ended := make(chan error)
	for _, id := range []string{"leader", "waiter"} {
		b := record.New(store, record.Options{Clock: c})
		defer b.Close()
		e, err := election.New(b, "e", election.Options{ID: id, Lease: lease, Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		backends = append(backends, b)
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, _ election.Leadership) error { <-ctx.Done(); return nil })
		}()
		synctest.Wait()
	}
	for _, b := range backends {
		fail(b, store)
	}
	cancel()
	began := time.Now()
	for range backends {
		<-ended
	}
	return time.Since(began), store.asked.Load()
}

// down is a store that can fail.
type down struct {
	*record.Memory
	down  atomic.Bool
	asked atomic.Int64 // while it failed
}

func (d *down) Read(ctx context.Context, name string) (record.Record, string, error) {
	if d.down.Load() {
		d.asked.Add(1)
		return record.Record{}, "", errors.New("down")
	}
	return d.Memory.Read(ctx, name)
}

func (d *down) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	if d.down.Load() {
		d.asked.Add(1)
		return "", errors.New("down")
	}
	return d.Memory.Write(ctx, name, r, version)
}
