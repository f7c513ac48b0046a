package fence_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/fencetest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// inMemory is a number behind Do.
func inMemory(f *fence.Fence) fencetest.Resource {
	number := 0
	return fencetest.Resource{
		Claim: func(ctx context.Context, token election.Token) (value int, err error) {
			err = f.Do(ctx, "number", token, func(context.Context) error { value = number; return nil })
			return value, err
		},
		Write: func(ctx context.Context, token election.Token, value int) error {
			return f.Do(ctx, "number", token, func(context.Context) error { number = value; return nil })
		},
		Read: func(context.Context) (int, error) { return number, nil },
	}
}

func TestFenceInMemoryLosesNoUpdate(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Resource { return inMemory(fence.New()) })
}

func TestNoLowerTokenIsAcceptedAfterAHigherOne(t *testing.T) {
	f := fence.New()
	var highest atomic.Uint64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for token := election.Token(1); token <= 2000; token++ {
				before := highest.Load() // certainly accepted by now
				if f.Check("r", token) != nil {
					continue
				}
				if uint64(token) < before {
					t.Errorf("token %d was accepted after %d", token, before)
				}
				for old := highest.Load(); old < uint64(token) && !highest.CompareAndSwap(old, uint64(token)); {
					old = highest.Load()
				}
			}
		})
	}
	group.Wait()
	if f.Seen("r") != 2000 || f.Seen("other") != 0 {
		t.Errorf("seen %d and %d", f.Seen("r"), f.Seen("other"))
	}
}

func TestRefusalSaysWhy(t *testing.T) {
	f := fence.New()
	if err := f.Check("orders", 34); err != nil {
		t.Fatal(err)
	}
	err := f.Check("orders", 33)
	var stale *fence.StaleError
	if !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: "orders", Token: 33, Seen: 34}) {
		t.Fatalf("refused with %v", err)
	}
	if err := f.Check("invoices", 1); err != nil {
		t.Errorf("another resource: %v", err)
	}
	if err := f.Check("orders", 0); !errors.Is(err, fence.ErrNoToken) || errors.Is(err, fence.ErrStale) {
		t.Errorf("no token: %v", err)
	}
}

func TestNewerTokenEndsTheOlderActAndWaitsForIt(t *testing.T) {
	f, ctx := fence.New(), awaittest.Within(t)
	var order []string
	inside, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- f.Do(ctx, "r", 1, func(ctx context.Context) error {
			close(inside)
			<-ctx.Done() // ended only by the newer token
			order = append(order, "older has left")
			return context.Cause(ctx)
		})
	}()
	<-inside
	if err := f.Do(ctx, "r", 2, func(context.Context) error {
		order = append(order, "newer is in")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, fence.ErrStale) {
		t.Errorf("the context of the older act ended with %v", err)
	}
	if len(order) != 2 || order[0] != "older has left" {
		t.Errorf("order: %q", order)
	}
}

func TestActsWithOneTokenRunSideBySide(t *testing.T) {
	f, ctx := fence.New(), awaittest.Within(t)
	met := make(chan struct{})
	meet := func(context.Context) error {
		select {
		case met <- struct{}{}:
		case <-met:
		case <-ctx.Done():
			t.Error("the acts did not meet")
		}
		return nil
	}
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if err := f.Do(ctx, "r", 5, meet); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// Of three leaders that meet, the middle one waits for the first, and is stale
// before it is let in.
func TestWriterThatWaitedIsJudgedAgain(t *testing.T) {
	f, ctx := fence.New(), awaittest.Within(t)
	leave, inside, middle := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var group sync.WaitGroup
	group.Go(func() {
		_ = f.Do(ctx, "r", 1, func(ctx context.Context) error {
			close(inside)
			<-ctx.Done() // 2 has arrived
			if err := f.Check("r", 3); err != nil {
				t.Error(err)
			}
			<-leave
			return nil
		})
	})
	<-inside
	group.Go(func() {
		middle <- f.Do(ctx, "r", 2, func(context.Context) error { return nil })
	})
	awaittest.Until(t, "3 has been seen", func() bool { return f.Seen("r") == 3 })
	close(leave)
	if err := <-middle; !errors.Is(err, fence.ErrStale) {
		t.Errorf("token 2 was let in after 3: %v", err)
	}
	group.Wait()
}

func TestWaitingForAnOlderActEndsWithTheContext(t *testing.T) {
	f := fence.New()
	ctx, cancel := context.WithCancel(awaittest.Within(t))
	leave, inside := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		_ = f.Do(context.Background(), "r", 1, func(ctx context.Context) error {
			close(inside)
			<-ctx.Done()
			cancel()
			<-leave
			return nil
		})
	})
	<-inside
	err := f.Do(ctx, "r", 2, func(context.Context) error { return nil })
	if !errors.Is(err, context.Canceled) || errors.Is(err, fence.ErrStale) {
		t.Errorf("gave up with %v", err)
	}
	close(leave)
	group.Wait()
}

func TestContextCarriesTheToken(t *testing.T) {
	ctx := awaittest.Within(t)
	if _, err := fence.TokenOf(ctx); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("no token: %v", err)
	}
	if token, err := fence.TokenOf(fence.WithToken(ctx, 7)); token != 7 || err != nil {
		t.Errorf("token %d, %v", token, err)
	}
}
