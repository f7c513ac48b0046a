package healthcheck

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const pause = time.Second

// candidate calls a check as an Elector does, until its context ends.
func candidate(ctx context.Context, check func(context.Context) error, each func(error)) {
	ticks := time.NewTicker(pause)
	defer ticks.Stop()
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, pause)
		each(check(one))
		cancel()
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
}

// With ten candidates that began at different times, the check runs about once per
// pause, one at a time, and each call gets a new result. It continues for the
// candidates that are left.
func TestCheckIsMadeOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, under := 0, 0
		var mu sync.Mutex
		var running sync.WaitGroup
		check := Shared(func(context.Context) error {
			mu.Lock()
			made, under = made+1, under+1
			if under > 1 {
				t.Error("two at a time")
			}
			mu.Unlock()
			time.Sleep(pause / 10)
			mu.Lock()
			defer mu.Unlock()
			under--
			return errors.New("one of its own")
		})
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return made
		}
		all, end := context.WithCancel(t.Context())
		most, endMost := context.WithCancel(all)
		for i := range 10 {
			ctx := most
			if i == 0 {
				ctx = all
			}
			running.Go(func() {
				time.Sleep(time.Duration(i) * 70 * time.Millisecond)
				var last error
				candidate(ctx, check, func(err error) {
					if err == last {
						t.Error("a candidate has one result twice")
					}
					last = err
				})
			})
		}
		time.Sleep(10 * pause)
		before := count()
		if before < 9 || before > 14 {
			t.Errorf("%d checks in 10 pauses of ten candidates", before)
		}
		endMost()
		time.Sleep(10 * pause)
		if now := count(); now-before < 9 || now-before > 11 {
			t.Errorf("%d checks in 10 pauses of one candidate", now-before)
		}
		end()
		running.Wait()
	})
}

// A check that hangs fails for everybody, and continues after the candidate that began
// it has ended. A check that panics fails for all calls that wait for it.
func TestCheckThatHangsOrPanicsFailsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		check := Shared(func(ctx context.Context) error {
			<-let
			if ctx.Err() == nil {
				panic("broken")
			}
			return ctx.Err()
		})
		ctx, end := context.WithTimeout(t.Context(), pause)
		go func() { _ = check(ctx) }()
		synctest.Wait()
		end() // its candidate has ended
		other, cancel := context.WithTimeout(t.Context(), pause)
		defer cancel()
		if err := check(other); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that hangs: %v", err)
		}
		time.Sleep(pause)
		let <- struct{}{}
		synctest.Wait()
		go func() {
			defer func() { _ = recover() }()
			one, cancel := context.WithTimeout(t.Context(), pause)
			defer cancel()
			_ = check(one)
		}()
		synctest.Wait()
		result := make(chan error, 1)
		go func() {
			one, cancel := context.WithTimeout(t.Context(), pause)
			defer cancel()
			result <- check(one)
		}()
		synctest.Wait()
		let <- struct{}{}
		if err := <-result; !errors.Is(err, errBroken) {
			t.Errorf("one that panics: %v", err)
		}
	})
}

// TestCheckThatTakesTooLongFailsForAll: it fails even if it succeeds in the end, and also for a
// call that came late and has not waited too long itself.
func TestCheckThatTakesTooLongFailsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check := Shared(func(context.Context) error { time.Sleep(pause * 3 / 2); return nil })
		var running sync.WaitGroup
		for _, after := range []time.Duration{0, pause * 9 / 10} {
			running.Go(func() {
				time.Sleep(after)
				ctx, cancel := context.WithTimeout(t.Context(), pause)
				defer cancel()
				if err := check(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("for one that comes after %v: %v", after, err)
				}
			})
		}
		running.Wait()
	})
}

// The candidates that wait for a check have its result although the one that began it ends.
func TestCheckOutlivesTheCandidateThatBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check := Shared(func(ctx context.Context) error {
			select {
			case <-time.After(pause / 2):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		began, end := context.WithTimeout(t.Context(), pause)
		go func() { _ = check(began) }()
		synctest.Wait()
		waits := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), pause)
			defer cancel()
			waits <- check(ctx)
		}()
		synctest.Wait()
		end()
		if err := <-waits; err != nil {
			t.Errorf("the check that another candidate waits for: %v", err)
		}
	})
}

func TestNoCheckIsNone(t *testing.T) {
	if Shared(nil) != nil {
		t.Error("a check of nothing")
	}
}
