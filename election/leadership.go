package election

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/clock"
)

// Leadership is the proof that this candidate leads, for as long as it does. Its methods may be
// called by several goroutines, even after its end. The zero Leadership never began: its Err is
// ErrNotLeader.
type Leadership struct{ term *term }

// term is one leadership. The loop of Run writes it; all goroutines may read it.
type term struct {
	claim   Claim
	attempt uint64
	token   Token
	files   []*os.File
	guard   any
	clock   clock.Clock
	resign  func()
	hurry   func() // asks for a renewal at once
	ended   func() // reports to the loop that the time is over

	ctx    context.Context
	cancel context.CancelCauseFunc

	proof   atomic.Pointer[proof]
	lastErr atomic.Pointer[error] // last error of the backend; nil for none
}

// proof is the store's latest answer about a leadership. It is never changed; the next
// answer replaces it.
type proof struct {
	deadlineMs int64
	endMs      int64
	sent       clock.Instant // when the request was sent
	lease      time.Duration
	replaced   chan struct{} // closed when there is a newer one
}

// noTerm is the term of the zero Leadership.
var noTerm = func() *term {
	t := &term{clock: clock.System(), resign: func() {}, hurry: func() {}}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	t.cancel(ErrNotLeader)
	t.proof.Store(&proof{})
	return t
}()

func (l Leadership) of() *term {
	if l.term == nil {
		return noTerm
	}
	return l.term
}

// Token returns the fencing token. Send it with everything that is done in the name of the
// leadership, so the receiver can refuse older tokens.
func (l Leadership) Token() Token { return l.of().token }

// ID returns the id under which this candidate leads.
func (l Leadership) ID() string { return l.of().claim.ID }

// Election returns the name of the election.
func (l Leadership) Election() string { return l.of().claim.Election }

// Lease returns how long the store keeps others out, as of the last renewal. It may differ from
// Options.Lease, as stores have limits of their own.
func (l Leadership) Lease() time.Duration { return l.of().proof.Load().lease }

// Deadline returns the instant before which nobody else can lead, as far as is proved by now. It
// moves with every renewal.
func (l Leadership) Deadline() clock.Instant {
	return clock.FromMillis(l.of().proof.Load().deadlineMs)
}

// End returns the instant at which the function is told to end, some grace before Deadline. A
// renewal moves it.
func (l Leadership) End() clock.Instant { return clock.FromMillis(l.of().proof.Load().endMs) }

// Remaining returns the time from now to the deadline, zero if it has passed.
func (l Leadership) Remaining() time.Duration {
	return max(0, l.Deadline().Sub(l.of().clock.Now()))
}

// Done is closed when the function must end: some grace before the deadline,
// or at once when the leadership is gone.
func (l Leadership) Done() <-chan struct{} { return l.of().ctx.Done() }

// Err returns nil while the leadership holds, and otherwise why it ended. It reads the clock, so
// its answer is right even if it is the first call after the process was frozen.
func (l Leadership) Err() error {
	l.of().checkClock()
	return context.Cause(l.of().ctx)
}

// Resign asks for this leadership to end; the function's context ends. It does not wait.
func (l Leadership) Resign() { l.of().resign() }

// Files returns the open files that keep the grant for as long as any process has them open. A
// child process that inherits them keeps others from leading until it has exited. Empty with most
// backends.
func (l Leadership) Files() []*os.File { return l.of().files }

// Guard returns the Guard of the Grant, which makes a transaction in the store fail once this
// leadership is over; nil if the store has no such thing. It is for the function Fence of a
// backend's package.
func (l Leadership) Guard() any { return l.of().guard }

// Ensure returns nil if at least d is left until End; if less is left, it renews first. Call it
// before a step that takes at most d and must not be interrupted. It waits for the store until
// ctx or the leadership ends, and then returns the cause. An error that matches ErrLeaseTooShort
// means that even a renewal leaves less than d: ask for a longer lease, or take smaller steps.
func (l Leadership) Ensure(ctx context.Context, d time.Duration) error {
	t := l.of()
	asked := t.clock.Now()
	for {
		if err := l.Err(); err != nil {
			return err
		}
		p := t.proof.Load()
		left := clock.FromMillis(p.endMs).Sub(t.clock.Now())
		switch {
		case left >= d:
			return nil
		case p.sent >= asked:
			return fmt.Errorf("election %q: %v left of a lease of %v just renewed, %v needed: %w",
				t.claim.Election, left, p.lease, d, ErrLeaseTooShort)
		}
		t.hurry()
		select {
		case <-p.replaced:
		case <-t.ctx.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// checkClock ends the leadership if its time is over, even if the loop of Run has not
// noticed.
func (t *term) checkClock() {
	if t.clock.Now().Millis() < t.proof.Load().endMs {
		return
	}
	t.cancel(t.lost(ReasonExpired)) // an earlier cause stays
}

// watchDeadline ends the leadership on time. It does nothing else, so nothing can delay it;
// the loop of Run watches the deadline too, but also has other work.
func (t *term) watchDeadline() {
	for t.ctx.Err() == nil {
		p := t.proof.Load()
		timer := t.clock.Timer(clock.FromMillis(p.endMs))
		select {
		case <-timer.C():
			t.checkClock()
		case <-p.replaced:
		case <-t.ctx.Done():
		}
		timer.Stop()
	}
	if lost := (*LostError)(nil); errors.As(context.Cause(t.ctx), &lost) && lost.Reason == ReasonExpired {
		t.ended()
	}
}

// prove moves deadline and end to those of the newest grant.
func (t *term) prove(deadlineMs, endMs int64, by Grant) {
	old := t.proof.Swap(&proof{deadlineMs, endMs, by.Sent, by.Lease, make(chan struct{})})
	if old != nil {
		close(old.replaced)
	}
}

// lost returns the cause for the function's context, with the last error of the backend.
func (t *term) lost(reason Reason) *LostError {
	lost := &LostError{Election: t.claim.Election, Token: t.token, Reason: reason}
	if err := t.lastErr.Load(); err != nil {
		lost.Err = *err
	}
	return lost
}

// leaderContext is the context of the function. Its Err reads the clock, as Leadership.Err
// does.
type leaderContext struct {
	context.Context
	term *term
}

func (c *leaderContext) Err() error {
	c.term.checkClock()
	return c.Context.Err()
}
