package queue

import (
	"context"
	"errors"
	"time"
)

// warmUp is the warm-up of a waiter that was nominated (queue-Q5).
type warmUp struct {
	round  string // of the latest nomination
	ready  bool   // the function has returned nil; belongs to the warm-up that began last
	cancel context.CancelFunc
	done   chan struct{}
}

// warm makes this waiter ready for a new nomination, in a goroutine of its own. A waiter that
// is ready stays ready; one whose warm-up failed, or was told to end, tries again.
func (w *waiter) warm(ctx context.Context, n Nomination) {
	if n.Round == "" || n.State != Nominated || n.Round == w.warmUp.round {
		return
	}
	w.warmUp.stop()
	ctx, cancel := context.WithCancel(ctx)
	before, done := w.warmUp.done, make(chan struct{})
	w.warmUp.round, w.warmUp.cancel, w.warmUp.done = n.Round, cancel, done
	go func() { // nobody waits for a function of the user's, not even Close
		defer close(done)
		defer cancel()
		if before != nil {
			<-before
		}
		n.State = Ready
		if err := w.warmUp.run(ctx, w.claim.Warm); err != nil {
			n.State, n.Error = Failed, err.Error()
		}
		w.answer(ctx, n)
	}()
}

// run calls the function until it has succeeded once. Warm-ups run one after another.
func (u *warmUp) run(ctx context.Context, function func(context.Context) error) error {
	if u.ready || function == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	err := function(ctx)
	u.ready = err == nil
	return err
}

// answer sends the answer to the holder, until that has succeeded.
func (w *waiter) answer(ctx context.Context, n Nomination) {
	for ctx.Err() == nil {
		err := w.claim.entry.Answer(ctx, n)
		if err == nil {
			return
		}
		if !errors.Is(err, ErrConflict) {
			Pause(ctx)
		}
	}
}

// stop tells the warm-up to end.
func (u *warmUp) stop() {
	if u.cancel != nil {
		u.cancel()
	}
}

// finish tells the warm-up to end and waits for it up to a limit, because the function is the
// user's.
func (u *warmUp) finish(limit time.Duration) {
	if u.cancel == nil {
		return
	}
	u.cancel()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-u.done:
	case <-timer.C:
	}
}
