// Package healthcheck lets the candidates of one process share a health check.
//
// In go a check, and the calls of candidates that each make it once every so often; what
// comes out is one check at a time, about as often, as long as one of them is left.
package healthcheck

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Shared returns a check for several candidates, nil for nil. Each calls it with a
// context whose deadline is the end of its pause between two checks. A call that comes
// while a check is under way waits for that one, as long as its own context lasts, so
// a check that hangs fails for everybody; and one that comes less than three quarters
// of a pause after the last check began has the result of that, which is no call's
// twice. The check goes on, to its deadline, when the candidate that began it has ended.
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

// result is that of a check, which may be under way.
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

// join returns the check whose result counts, and whether the caller has to make it.
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

// run makes the check, and tells those that wait. A panic goes on to the caller.
func (s *shared) run(ctx context.Context, one *result, pause time.Duration) error {
	defer close(one.done)
	ctx = context.WithoutCancel(ctx)
	if pause > 0 {
		limited, cancel := context.WithTimeout(ctx, pause)
		defer cancel()
		ctx = limited
	}
	if one.err = s.check(ctx); one.err == nil {
		one.err = ctx.Err() // it took too long, whatever it says
	}
	return one.err
}
