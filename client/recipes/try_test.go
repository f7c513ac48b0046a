package recipes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

func refused(t *testing.T, h *Held, err error, want error) {
	t.Helper()
	if h != nil || !errors.Is(err, want) {
		t.Errorf("%v, %v: expected %v", h, err, want)
	}
}

// TestTryAcquireTakesWhatIsFree also checks that TryAcquire leaves nothing behind if
// it fails.
func TestTryAcquireTakesWhatIsFree(t *testing.T) {
	addr := serve(t)
	ctx := awaittest.Within(t)
	mine, other := dialed(t, addr, client.Options{}), dialed(t, addr, client.Options{})
	h, err := NewLock(mine, "/lock", Options{}).TryAcquire(ctx)
	must(t, err)
	for range 3 {
		h2, err := NewLock(other, "/lock", Options{}).TryAcquire(ctx)
		refused(t, h2, err, ErrLocked)
	}
	names, _, err := other.Children(ctx, "/lock")
	must(t, err)
	if len(names) != 1 {
		t.Errorf("the lock has the contenders %q, expected the holder alone", names)
	}
	must(t, h.Release(ctx))
	h, err = NewLock(other, "/lock", Options{}).TryAcquire(ctx)
	must(t, err)
	must(t, h.Release(ctx))
}

func TestTryAcquireOfReadersAndWriters(t *testing.T) {
	addr := serve(t)
	ctx := awaittest.Within(t)
	one, two := NewRWLock(dialed(t, addr, client.Options{}), "/rw", Options{}), NewRWLock(dialed(t, addr, client.Options{}), "/rw", Options{})
	r1, err := one.TryAcquireRead(ctx)
	must(t, err)
	r2, err := two.TryAcquireRead(ctx)
	must(t, err)
	w, err := one.TryAcquireWrite(ctx)
	refused(t, w, err, ErrLocked)
	must(t, r1.Release(ctx))
	must(t, r2.Release(ctx))
	w, err = one.TryAcquireWrite(ctx)
	must(t, err)
	r, err := two.TryAcquireRead(ctx)
	refused(t, r, err, ErrLocked)
	must(t, w.Release(ctx))
}

// TestOneOfThoseWhoTryAtOnceAcquires checks that exactly one of them does.
func TestOneOfThoseWhoTryAtOnceAcquires(t *testing.T) {
	addr := serve(t)
	ctx := awaittest.Within(t)
	var clients []*client.Client
	for range 4 {
		clients = append(clients, dialed(t, addr, client.Options{}))
	}
	for range 20 {
		var got atomic.Int32
		var all sync.WaitGroup
		held := make(chan *Held, len(clients))
		for _, c := range clients {
			all.Go(func() {
				h, err := NewLock(c, "/lock", Options{}).TryAcquire(ctx)
				switch {
				case err == nil:
					got.Add(1)
					held <- h
				case !errors.Is(err, ErrLocked):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got.Load() != 1 {
			t.Fatalf("%d acquired, expected one", got.Load())
		}
		must(t, (<-held).Release(ctx))
	}
}

// TestContextEndsWithTheLock also checks that the context says why it has ended.
func TestContextEndsWithTheLock(t *testing.T) {
	addr := serve(t)
	ctx := awaittest.Within(t)
	c := dialed(t, addr, client.Options{})
	h, err := NewLock(c, "/lock", Options{}).Acquire(ctx)
	must(t, err)
	work, cancel := h.Context(ctx)
	defer cancel()
	if work.Err() != nil {
		t.Fatal("ended while the lock is held")
	}
	must(t, h.Release(ctx))
	<-work.Done()
	if cause := context.Cause(work); !errors.Is(cause, context.Canceled) || errors.Is(cause, ErrLost) {
		t.Errorf("released: %v", cause)
	}
	late, cancelLate := h.Context(ctx)
	defer cancelLate()
	<-late.Done()

	h, err = NewLock(c, "/lock", Options{}).Acquire(ctx)
	must(t, err)
	work, cancel = h.Context(ctx)
	defer cancel()
	must(t, dialed(t, addr, client.Options{}).Delete(ctx, h.Path(), -1)) // as by hand
	<-work.Done()
	if cause := context.Cause(work); !errors.Is(cause, ErrLost) {
		t.Errorf("lost: %v", cause)
	}
}

// TestMultiOfALockThatIsLostChangesNothing has a holder that was stopped, and the
// next holder has written since.
func TestMultiOfALockThatIsLostChangesNothing(t *testing.T) {
	addr := serve(t)
	ctx := awaittest.Within(t)
	mine, other := dialed(t, addr, client.Options{}), dialed(t, addr, client.Options{})
	_, _, err := mine.Create(ctx, "/data", []byte("0"), client.CreateOptions{})
	must(t, err)
	zombie, err := NewLock(mine, "/lock", Options{}).Acquire(ctx)
	must(t, err)
	results, err := zombie.Multi(ctx, client.SetOp("/data", []byte("1"), -1))
	must(t, err)
	if len(results) != 1 || results[0].Stat.Version != 1 {
		t.Errorf("%+v", results)
	}
	_, err = zombie.Multi(ctx, client.SetOp("/missing", nil, -1))
	if errors.Is(err, ErrLost) || !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("an operation of its own that fails: %v", err)
	}
	must(t, other.Delete(ctx, zombie.Path(), -1))
	next, err := NewLock(other, "/lock", Options{}).Acquire(ctx)
	must(t, err)
	_, err = next.Multi(ctx, client.SetOp("/data", []byte("2"), -1))
	must(t, err)
	_, err = zombie.Multi(ctx, client.SetOp("/data", []byte("1"), -1))
	if !errors.Is(err, ErrLost) {
		t.Errorf("the write of a holder of the past: %v", err)
	}
	data, _, err := other.Get(ctx, "/data")
	must(t, err)
	if string(data) != "2" {
		t.Errorf("data is %q", data)
	}
}
