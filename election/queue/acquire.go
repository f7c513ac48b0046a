package queue

import (
	"context"
	"errors"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Acquire joins the queue and waits until the claim is at its head.
func (b *Backend) Acquire(ctx context.Context, one election.Claim) (election.Grant, error) {
	c, err := b.add(one)
	if err != nil {
		return election.Grant{}, b.fail("join", one.Election, err)
	}
	ctx, cancel := c.bind(ctx)
	defer cancel()
	joined, err := b.join(ctx)
	if err != nil {
		return election.Grant{}, b.fail("join", one.Election, err)
	}
	defer joined()
	w := &waiter{backend: b, claim: c, joined: joined}
	defer w.warmUp.stop()
	if w.lease, err = c.entry.Create(ctx); err == nil {
		err = c.entry.Enter(ctx)
	}
	if err != nil {
		return election.Grant{}, b.fail("join", one.Election, err)
	}
	grant, err := w.awaitTurn(ctx)
	if err != nil {
		return election.Grant{}, b.fail("wait in", one.Election, err)
	}
	c.prove(grant)
	b.begin(c, w.lease.Length == 0)
	return grant, nil
}

// begin starts the guard of a holder, unless Close, which waits for all guards, has already
// told the holder that it is lost. If the store's client itself renews the entry, kept is true,
// and lapse watches the grant.
func (b *Backend) begin(c *claim, kept bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.group.Go(func() { b.guard(c) })
	if kept {
		b.group.Go(func() { b.lapse(c) })
	}
}

// lapse removes a holder's entry when its grant has run out (queue-Q10).
func (b *Backend) lapse(c *claim) {
	for until := clock.Instant(0); until != c.proven(); {
		until = c.proven()
		timer := b.options.Clock.Timer(until)
		select {
		case <-timer.C():
		case <-c.life.Done():
		}
		timer.Stop()
	}
	if c.life.Err() == nil {
		c.lose()
		_ = c.entry.Revoke(c.life) // the store repeats it in the background if it can (queue-Q7)
	}
}

// guard tells the Elector what the store reports about a holder, until the claim is released or
// found to be lost. The next renewal finds whatever was missed.
func (b *Backend) guard(c *claim) {
	for c.life.Err() == nil {
		err := c.entry.Guard(c.life, c.signalNews)
		if err != nil && c.life.Err() == nil && errors.Is(b.store.Mark(err), election.ErrLost) {
			c.lose()
			return
		}
		Pause(c.life)
	}
}

// waiter is one Acquire in the queue. One goroutine owns it.
type waiter struct {
	backend *Backend
	claim   *claim
	lease   Lease
	warmUp  warmUp
	joined  func()
	// place is what the store has reported, at the instant placed. Its Standing is Gone if the
	// store has to be asked again.
	place  Place
	placed clock.Instant
}

// awaitTurn returns when the claim leads, or when it cannot stay in the queue. While the store
// cannot be reached, the claim stays for a lease, because the store may keep its entry.
func (w *waiter) awaitTurn(ctx context.Context) (election.Grant, error) {
	good := w.backend.now()
	for {
		place, err := w.look(ctx)
		if locker, ok := w.claim.entry.(Locker); ok && err == nil && place.Standing == Head && place.Token == 0 {
			place.Token, err = locker.Lock(ctx)
		}
		if err == nil && place.Token != 0 {
			w.warmUp.finish(w.length() / 4)
			var grant election.Grant
			if grant, err = w.takeUp(ctx, place.Token); err == nil {
				return grant, nil
			}
		}
		if err == nil {
			good = w.backend.now()
			w.joined()
			w.warm(ctx, place.Nomination)
			err = w.await(ctx, place)
		}
		switch {
		case ctx.Err() != nil:
			return election.Grant{}, context.Cause(ctx)
		case err == nil:
			continue
		case w.final(err) || w.backend.now().Sub(good) > w.length():
			return election.Grant{}, err
		}
		w.place = Place{}
		w.joined()
		Pause(ctx)
	}
}

// final reports whether trying again is useless for this claim.
func (w *waiter) final(err error) bool {
	err = w.backend.store.Mark(err)
	return errors.Is(err, election.ErrLost) || errors.Is(err, election.ErrPermanent)
}

// length returns the length of the lease.
func (w *waiter) length() time.Duration {
	if w.lease.Length == 0 {
		return w.claim.Lease
	}
	return w.lease.Length
}

// due returns when to renew the lease next; false if this package does not renew it.
func (w *waiter) due() (clock.Instant, bool) {
	return w.lease.Sent.Add(w.lease.Length / 3), w.lease.Length > 0
}

// bounded returns a context for calls that must not prevent the renewal of a lease of this
// package: it ends after half of the lease.
func (w *waiter) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.lease.Length == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, max(w.lease.Length/2, pause))
}

func (w *waiter) takeUp(ctx context.Context, token election.Token) (election.Grant, error) {
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	return w.backend.takeUp(ctx, w.claim, token)
}

// look renews the lease if it is time, and finds the entry's place. An entry that has gone is
// put at the end of the queue (queue-Q4), if the lease still lives (queue-Q1).
func (w *waiter) look(ctx context.Context) (Place, error) {
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	if at, renews := w.due(); renews && w.backend.now() >= at {
		if err := w.renew(ctx); err != nil {
			return Place{}, err
		}
	}
	if w.stands() {
		return w.place, nil
	}
	now := w.backend.now()
	place, err := w.claim.entry.Place(ctx)
	if err == nil && place.Standing == Gone {
		if err = w.renew(ctx); err == nil {
			err = w.claim.entry.Enter(ctx)
		}
		if err == nil {
			place, err = w.claim.entry.Place(ctx)
		}
	}
	if err != nil {
		return Place{}, err
	}
	w.place, w.placed = place, now
	return place, nil
}

// stands reports whether the place is still valid, so that it need not be asked for: the wait
// has reported nothing, and the place was reported less than a lease ago (queue-Q3).
func (w *waiter) stands() bool {
	entry, tells := w.claim.entry.(Quiet)
	return tells && w.place.Standing == Queued && entry.Quiet() && w.backend.now() < w.placed.Add(w.length())
}

func (w *waiter) renew(ctx context.Context) error {
	lease, err := w.claim.entry.Renew(ctx)
	if err == nil {
		w.lease = lease
	}
	return err
}

// never is longer than any claim waits.
const never = time.Duration(1<<63 - 1)

// await returns when there is a reason to look again (queue-Q3).
func (w *waiter) await(ctx context.Context, place Place) error {
	if place.Standing != Queued {
		return nil // it has joined the queue again, or could not take the lock
	}
	limit := never
	if at, renews := w.due(); renews {
		limit = max(0, at.Sub(w.backend.now()))
	}
	return w.claim.entry.Wait(ctx, limit)
}
