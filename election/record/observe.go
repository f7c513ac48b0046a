package record

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/claims"
)

// observeLimit is the maximum time between two reads of an observer.
const observeLimit = 10 * time.Second

// Observe yields what the record says, without leases that have run out as measured here.
func (b *Backend) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		last, first, broken, failures := election.View{Election: name}, true, false, 0
		for ctx.Err() == nil {
			seen, err := b.see(ctx, name, observeLimit)
			if ctx.Err() != nil {
				return
			}
			view, again := last, b.now()
			if err == nil {
				view, again = viewOf(&seen, name, b.now())
			} else {
				err = b.fail("observe", name, err)
			}
			if (first || broken != (err != nil) || !view.Equal(last)) && !yield(view, err) {
				return
			}
			if errors.Is(err, election.ErrClosed) {
				return
			}
			last, first, broken = view, false, err != nil
			if limit := again.Sub(b.now()); limit > 0 {
				_, err = b.await(ctx, name, seen.Version, limit, observeLimit)
			}
			if err == nil {
				failures = 0
				continue
			}
			pause := claims.RetryPause(failures, observeLimit)
			failures++
			b.sleep(ctx, b.now().Add(pause/2+rand.N(pause/2+1))) // the next read reports the error
		}
	}
}

// viewOf returns what people see at now, and when that changes by itself.
func viewOf(s *claims.Sight, name string, now clock.Instant) (election.View, clock.Instant) {
	view := election.View{Election: name, Token: s.Record.Token}
	again := now.Add(observeLimit)
	if at := s.VacantAt(); now < at && s.Record.Nonce != "" {
		view.Leader, view.Metadata, view.Unconfirmed = s.Record.Holder, s.Record.Metadata, s.Unconfirmed()
		if h := s.Record.History; len(h) > 0 {
			view.Since = h[len(h)-1].Since
		}
		again = min(again, at)
	}
	if at := s.NextGoneAt(); now < at {
		view.Waiters = []election.Waiter{{ID: s.Record.Next.ID, Metadata: s.Record.Next.Metadata}}
		again = min(again, at)
	}
	return view, again
}
