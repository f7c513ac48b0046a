package holders

import (
	"context"
	"errors"
	"sync"

	"github.com/conclave-project/conclave/election"
)

// writing is one writer at the gate: it collects all places, acts, and releases them.
type writing struct {
	gate election.Leadership
	ctx  context.Context // of the act; it ends when the gate is lost
	end  context.CancelCauseFunc
	all  chan struct{} // closed when every place is held
	over chan struct{} // closed when the act has ended, or will not begin

	released chan struct{} // closed when no place is held or requested any more

	mu     sync.Mutex
	places map[int]election.Leadership // the places that are held
	needed int
	closed bool // no more places are collected: all are held, or the attempt was given up

	acted      bool  // whether the function was called
	returned   bool  // whether it has returned: it may have ended its goroutine instead
	err, cause error // of the function, and why its context ended
	cut        error // the cause, if the function reports that it was told to end
}

func newWriting(atGate context.Context, lead election.Leadership, places int) *writing {
	w := &writing{gate: lead, needed: places, places: make(map[int]election.Leadership),
		all: make(chan struct{}), over: make(chan struct{}), released: make(chan struct{})}
	w.ctx, w.end = context.WithCancelCause(atGate)
	return w
}

// run returns when the act is over. The places may be released later, because a store that does
// not answer is no reason to keep the gate. An error is the reason why a place cannot be had.
func (w *writing) run(places []*election.Elector, function func(context.Context, Held) error) (err error) {
	campaign, stop := context.WithCancel(context.WithoutCancel(w.ctx))
	failed := make(chan error, len(places))
	var campaigns sync.WaitGroup
	defer func() { // also after a panic
		w.giveUp()
		close(w.over)
		stop()
		w.end(nil)
		go func() {
			campaigns.Wait()
			close(w.released)
		}()
	}()
	for i, place := range places {
		campaigns.Go(func() {
			failed <- place.Run(campaign, func(ctx context.Context, lead election.Leadership) error {
				w.hold(ctx, i, lead)
				return nil
			})
		})
	}
	select {
	case <-w.all:
		w.act(function)
	case err = <-failed:
	case <-w.ctx.Done():
		// A place that is granted at this moment is released with the others.
	}
	return err
}

// hold keeps a place until the act is over, or until the place is lost before the act has
// begun. The loss of a place later ends the act, and the place is kept until the act has ended.
func (w *writing) hold(ctx context.Context, i int, lead election.Leadership) {
	w.take(i, lead)
	select {
	case <-w.over:
		return
	case <-ctx.Done():
	}
	if w.drop(i) {
		return
	}
	w.end(context.Cause(ctx))
	<-w.over
}

func (w *writing) take(i int, lead election.Leadership) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.places[i] = lead
	if len(w.places) == w.needed && !w.closed {
		w.closed = true
		close(w.all)
	}
}

// drop gives up a place, unless all are held.
func (w *writing) drop(i int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	delete(w.places, i)
	return true
}

// giveUp prevents an act from beginning.
func (w *writing) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// act calls the function, unless a place has been lost already.
func (w *writing) act(function func(context.Context, Held) error) {
	held := Held{w.gate.Token(), []election.Leadership{w.gate}}
	w.mu.Lock()
	for _, lead := range w.places {
		held.leads = append(held.leads, lead)
	}
	w.mu.Unlock()
	ctx := &heldContext{w.ctx, held, w.end}
	if ctx.Err() != nil {
		return
	}
	w.acted = true
	w.err = function(held.carry(ctx, w.gate), held)
	w.returned = true
	w.cause = context.Cause(ctx)
	if w.cut = cutShort(ctx, w.err); w.cut != nil {
		w.err = nil
	}
}

// cutShort returns why a function was told to end, if its error only reports that it was.
func cutShort(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	for _, told := range []error{context.Canceled, context.DeadlineExceeded, cause} {
		if cause != nil && errors.Is(err, told) {
			return cause
		}
	}
	return nil
}

// heldContext is the context of a writer. Its Err checks the clock, as that of a leader's
// context does.
type heldContext struct {
	context.Context
	held Held
	end  context.CancelCauseFunc
}

// Err returns nil while everything is held.
func (c *heldContext) Err() error {
	if err := c.held.Err(); err != nil {
		c.end(err)
	}
	return c.Context.Err()
}
