// Package healthcheck lets the candidates of one process share a health check.
//
// Each candidate calls the shared check at its own interval. The real check runs at
// about that interval too, once for all of them, as long as one candidate is left.
package healthcheck

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Shared returns a check for several candidates; it returns nil for nil. Each candidate
// calls it with a context whose deadline is the end of its pause between two checks. A
// call during a running check waits for its result, as long as the call's own context
// lasts, so a check that hangs fails for everybody. A call less than three quarters of a
// pause after the start of the last check gets the result of that check, but no
// candidate gets the same result twice. A running check continues to its deadline even
// if the candidate that began it ends.
func Shared(check func(context.Context) error) func(context.Context) error {
	if check == nil {
		return nil
	}
	s := &shared{check: check}
	return s.call
}

type shared struct {
	check func(context.Context) error

	mu   sync.Mutex
	last *result // nil before the first check
}

// result is the result of a check, which may still be running.
type result struct {
	began time.Time
	done  chan struct{}
	err   error
}

var errBroken = errors.New("the health check panicked, or ended its goroutine")

func (s *shared) call(ctx context.Context) error {
	var pause time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		pause = time.Until(deadline)
	}
	one, mine := s.join(pause)
	if mine {
		return s.run(ctx, one, pause)
	}
	select {
	case <-one.done:
		return one.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join returns the check whose result applies, and whether the caller has to run it.
func (s *shared) join(pause time.Duration) (one *result, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		select {
		case <-s.last.done:
			if time.Since(s.last.began) < pause*3/4 {
				return s.last, false
			}
		default:
			return s.last, false
		}
	}
	s.last = &result{time.Now(), make(chan struct{}), errBroken}
	return s.last, true
}

// run runs the check and wakes the waiting calls. A panic reaches the caller.
func (s *shared) run(ctx context.Context, one *result, pause time.Duration) error {
	defer close(one.done)
	ctx = context.WithoutCancel(ctx)
	if pause > 0 {
		limited, cancel := context.WithTimeout(ctx, pause)
		defer cancel()
		ctx = limited
	}
	if one.err = s.check(ctx); one.err == nil {
		one.err = ctx.Err() // it took too long, whatever its result
	}
	return one.err
}
