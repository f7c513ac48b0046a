package election

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/clock"
)

// Leadership is the proof that this candidate leads, for as long as it does.
// Its methods may be called by several goroutines, also after the end.
type Leadership struct{ term *term }

// term is one leadership. The loop of Run writes it, everybody reads.
type term struct {
	claim   Claim
	attempt uint64
	token   Token
	lease   time.Duration
	files   []*os.File
	clock   clock.Clock
	resign  func()
	ended   func()        // the clock has ended it
	moved   chan struct{} // a token when the end came closer

	ctx    context.Context
	cancel context.CancelCauseFunc

	deadlineMs atomic.Int64
	endMs      atomic.Int64
	lastErr    atomic.Pointer[error] // of the backend; nil for none
}

// Token returns the fencing token. Pass it along with everything that is done
// in the name of the leadership, so that the receiver can refuse older ones.
func (l Leadership) Token() Token { return l.term.token }

// ID returns the id under which this candidate leads.
func (l Leadership) ID() string { return l.term.claim.ID }

// Election returns the name of the election.
func (l Leadership) Election() string { return l.term.claim.Election }

// Lease returns for how long the store keeps others out after a renewal. It may
// differ from Options.Lease, as stores have limits of their own.
func (l Leadership) Lease() time.Duration { return l.term.lease }

// Deadline returns the instant before which nobody else can lead, as proved
// until now. It moves with every renewal.
func (l Leadership) Deadline() Instant {
	return clock.FromMillis(l.term.deadlineMs.Load())
}

// End returns the instant at which the function is told to end, unless a
// renewal moves it: some grace before Deadline.
func (l Leadership) End() Instant { return clock.FromMillis(l.term.endMs.Load()) }

// Remaining returns the time from now to the deadline, zero when it has passed.
func (l Leadership) Remaining() time.Duration {
	return max(0, l.Deadline().Sub(l.term.clock.Now()))
}

// Done is closed when the function must end: some grace before the deadline,
// or at once when the leadership is gone.
func (l Leadership) Done() <-chan struct{} { return l.term.ctx.Done() }

// Err returns nil while the leadership holds, and otherwise why it ended. It
// reads the clock, so it tells the truth even as the first thing that is
// called after the process was frozen.
func (l Leadership) Err() error {
	l.term.checkClock()
	return context.Cause(l.term.ctx)
}

// Resign asks to end this leadership; the function's context ends. It does not
// wait.
func (l Leadership) Resign() { l.term.resign() }

// Files returns the open files that keep the grant as long as anybody has them
// open. A child process that inherits them keeps others from leading until it
// is gone. Empty with most backends.
func (l Leadership) Files() []*os.File { return l.term.files }

// checkClock ends the leadership when its time has come and the loop of Run
// has not said so yet.
func (t *term) checkClock() {
	if t.clock.Now().Millis() < t.endMs.Load() {
		return
	}
	t.cancel(t.lost(ReasonExpired)) // the first cause stays
}

// watchDeadline ends the leadership at its time, with nothing between the clock
// and the function's context: the loop of Run does the same, but it also does
// other things.
func (t *term) watchDeadline() {
	for t.ctx.Err() == nil {
		timer := t.clock.Timer(clock.FromMillis(t.endMs.Load()))
		select {
		case <-timer.C():
			t.checkClock()
		case <-t.moved:
		case <-t.ctx.Done():
		}
		timer.Stop()
	}
	if lost := (*LostError)(nil); errors.As(context.Cause(t.ctx), &lost) && lost.Reason == ReasonExpired {
		t.ended()
	}
}

// extend moves the end.
func (t *term) extend(deadlineMs, endMs int64) {
	t.deadlineMs.Store(deadlineMs)
	if t.endMs.Swap(endMs) > endMs {
		select {
		case t.moved <- struct{}{}:
		default:
		}
	}
}

// lost is the cause with which the function's context ends, with what the
// backend said last.
func (t *term) lost(reason Reason) *LostError {
	lost := &LostError{Election: t.claim.Election, Token: t.token, Reason: reason}
	if err := t.lastErr.Load(); err != nil {
		lost.Err = *err
	}
	return lost
}

// leaderContext is the context of the function. Its Err looks at the clock, as
// Leadership.Err does.
type leaderContext struct {
	context.Context
	term *term
}

func (c *leaderContext) Err() error {
	c.term.checkClock()
	return c.Context.Err()
}
