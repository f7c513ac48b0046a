package election

import (
	"context"
	"fmt"
	"sync"

	"github.com/conclave-project/conclave/internal/elector"
)

// HeldError says who leads instead of the candidate that called Try. It matches
// ErrHeld.
type HeldError struct {
	// View is the election as it was seen.
	View View
}

// Error says who leads.
func (e *HeldError) Error() string {
	return fmt.Sprintf("election %q: %q leads with token %d", e.View.Election, e.View.Leader, e.View.Token)
}

// Is matches ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Try leads now, or returns who does. If nobody leads, it runs the function for one leadership
// and returns what Run returns with Options.Once. If another candidate leads, or is faster, it
// returns a *HeldError without waiting. It tries once: a failure of the store or of the health
// check ends it with that error.
//
// It may wait for one lease if the store keeps everybody out because it may have forgotten a
// leader; ctx bounds this wait. A leader that was killed holds the election until its lease has
// run out. If the store keeps no time and this process has not seen the leader renew
// (View.Unconfirmed), Try waits for a renewal or the end of the lease, without a place in the
// queue; ctx bounds this too, and the error then matches ErrHeld. Candidates that call Try need
// distinct ids: another candidate with this one's id is mistaken for it if it is elected at the
// same time.
func (e *Elector) Try(ctx context.Context, function func(context.Context, Leadership) error) error {
	before, err := e.look(ctx)
	if err != nil && before.Leader != "" {
		return fmt.Errorf("%w, unless it has died: %w", &HeldError{before}, err)
	}
	if err != nil {
		return fmt.Errorf("election %q: %w", e.name, err)
	}
	if before.Leader != "" {
		return &HeldError{before}
	}
	r := newRun(e, ctx, function, true)
	r.tries = true
	watched, end := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watchOthers(watched, before.Token) })
	defer watch.Wait()
	defer end()
	return e.start(r)
}

// look returns the first View that shows a confirmed leader or none. If ctx ends first, it
// returns the error of ctx and the last View, which may show an unconfirmed leader.
func (e *Elector) look(ctx context.Context) (View, error) {
	last := View{}
	for view := range e.Observe(ctx) {
		if view.Err != nil {
			return View{}, view.Err
		}
		if last = view; view.Leader == "" || !view.Unconfirmed {
			return view, nil
		}
	}
	if err := context.Cause(ctx); err != nil {
		return last, err
	}
	return View{}, Permanent(ErrClosed)
}

// watchOthers reports that another candidate leads. A View may show this candidate as the
// leader before Acquire returns: it has this id and a token above the last one seen before.
func (r *run) watchOthers(ctx context.Context, last Token) {
	for view := range r.elector.Observe(ctx) {
		var err error
		switch mine := view.Leader == r.elector.options.ID && view.Token > last; {
		case view.Err != nil:
			err = fmt.Errorf("election %q: %w", r.elector.name, view.Err)
		case view.Leader == "", view.Unconfirmed, mine:
			continue
		default:
			err = &HeldError{view}
		}
		r.report(report{event: elector.Stop{}, err: err})
		return
	}
}

// keep ends a run of Try that does not lead, and keeps the error as the reason.
func (r *run) keep(err error) {
	if !r.tries || r.term != nil || r.kept != nil {
		return
	}
	r.kept = err
	r.step(elector.Stop{})
}

// WaitLeader returns as soon as somebody leads, with the View of that moment. This candidate need
// not campaign. While the store cannot be reached, WaitLeader waits until ctx ends; the error
// then includes that of the store.
//
// A leader that may have died long ago (View.Unconfirmed) does not count until it has renewed,
// which takes a quarter of its lease. If ctx ends first, the returned View shows it.
func (e *Elector) WaitLeader(ctx context.Context) (View, error) {
	return e.wait(ctx, func(v View) bool { return v.Leader != "" && !v.Unconfirmed })
}

// WaitEnd returns as soon as the leadership with the given token is over, with the View of that
// moment: nobody leads, or a later leadership has begun. It waits as WaitLeader does.
//
// Views may lag, so "nobody leads" counts only once it is known that the leadership with that
// token, or a later one, had begun. If the leadership ended before this call and left no history
// in the store (because it was another program's), WaitEnd returns only when the next leadership
// begins.
func (e *Elector) WaitEnd(ctx context.Context, token Token) (View, error) {
	begun := false
	return e.wait(ctx, func(v View) bool {
		begun = begun || v.Token >= token
		return v.Token > token || begun && v.Leader == ""
	})
}

func (e *Elector) wait(ctx context.Context, enough func(View) bool) (View, error) {
	var last View
	for view := range e.Observe(ctx) {
		if view.Err == nil && enough(view) {
			return view, nil
		}
		last = view
	}
	err := context.Cause(ctx)
	if err == nil {
		err = Permanent(ErrClosed)
	}
	if last.Err != nil {
		err = fmt.Errorf("%w; the store: %w", err, last.Err)
	}
	return last, fmt.Errorf("election %q: %w", e.name, err)
}
