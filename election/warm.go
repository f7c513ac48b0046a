package election

import (
	"context"
	"errors"
	"time"
)

// warmUp runs Options.Warm for one claim. A backend may ask for it several times, with any
// context: only one call of Warm runs at a time, it is not called again after a success,
// and no call continues after Acquire has ended.
type warmUp struct {
	function func(context.Context) error
	life     context.Context // ends with Acquire
	end      context.CancelFunc
	turn     chan struct{} // capacity 1: the goroutine that has put a value in may call function
	ready    bool          // the function has returned nil; belongs to the goroutine whose turn it is
}

// newWarmUp returns nil for a candidate without a warm-up.
func newWarmUp(function func(context.Context) error) *warmUp {
	if function == nil {
		return nil
	}
	life, end := context.WithCancel(context.Background())
	return &warmUp{function: function, life: life, end: end, turn: make(chan struct{}, 1)}
}

var errWarmUpOver = errors.New("the candidate no longer waits")

// run is Claim.Warm. A panic counts as a failure, as in a health check: the candidate is
// not the next leader, but keeps waiting.
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

// finish tells a running call to end and waits for it, up to the limit, because the
// function is the user's and may not end.
func (w *warmUp) finish(limit time.Duration) {
	if w == nil {
		return
	}
	w.end()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case w.turn <- struct{}{}: // and keeps the turn, so no call follows
	case <-timer.C:
	}
}
