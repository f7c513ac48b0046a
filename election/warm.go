package election

import (
	"context"
	"errors"
	"time"
)

// warmUp is that of one claim. However often a backend asks for it, and with
// whatever context: one call of Options.Warm runs at a time, one that has succeeded
// is not repeated, and none goes on after the end of Acquire.
type warmUp struct {
	function func(context.Context) error
	life     context.Context // ends with Acquire
	end      context.CancelFunc
	turn     chan struct{} // of 1: who has put something in may call
	ready    bool          // the function has returned nil; belongs to whose turn it is
}

// newWarmUp returns nil for candidates that need none.
func newWarmUp(function func(context.Context) error) *warmUp {
	if function == nil {
		return nil
	}
	life, end := context.WithCancel(context.Background())
	return &warmUp{function: function, life: life, end: end, turn: make(chan struct{}, 1)}
}

var errWarmUpOver = errors.New("the candidate no longer waits")

// run is Claim.Warm. A call that panics has failed, as a health check has: the
// candidate is not the next to lead, and goes on.
func (w *warmUp) run(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.life.Done():
		return errWarmUpOver
	}
	defer func() { <-w.turn }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.life, func() { cancel(errWarmUpOver) })()
	switch {
	case w.ready:
		return nil
	case w.life.Err() != nil:
		return errWarmUpOver
	}
	err := <-contain(ctx, "warm-up", w.function)
	w.ready = err == nil
	return err
}

// finish tells a call that runs to end, and waits for it, but not for ever: the
// function is the user's.
func (w *warmUp) finish(limit time.Duration) {
	if w == nil {
		return
	}
	w.end()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case w.turn <- struct{}{}: // for good
	case <-timer.C:
	}
}
