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

// begin guards a holder, unless Close, which waits for all guards, has told it already
// that it is lost. An entry that the store's client keeps has no lease of its own.
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

// lapse takes a holder's entry away when its grant has run out (queue-Q10).
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
		_ = c.entry.Revoke(c.life) // goes on where it can (queue-Q7)
	}
}

// guard tells the Elector what the store shows of a holder, until the claim is
// released or seen to be lost. Whatever was missed the next renewal finds.
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
	// place is as the store has told it at the instant placed, Standing Gone where
	// it has to be asked again.
	place  Place
	placed clock.Instant
}

// awaitTurn returns when the claim leads, and when it cannot stay in the queue.
// While the store cannot be asked it stays for a lease: the store may keep it.
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

// final reports whether trying again is of no use to this claim.
func (w *waiter) final(err error) bool {
	err = w.backend.store.Mark(err)
	return errors.Is(err, election.ErrLost) || errors.Is(err, election.ErrPermanent)
}

// length is that of the lease.
func (w *waiter) length() time.Duration {
	if w.lease.Length == 0 {
		return w.claim.Lease
	}
	return w.lease.Length
}

// due is when the lease is renewed next, and false if this package does not
// renew it.
func (w *waiter) due() (clock.Instant, bool) {
	return w.lease.Sent.Add(w.lease.Length / 3), w.lease.Length > 0
}

// bounded returns a context for what must not keep a lease of this package from being
// renewed: it ends after half of the lease.
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

// look renews the lease if it is time, and finds the entry's place. An entry
// that has gone is put at the end (queue-Q4), if the lease lives (queue-Q1).
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

// stands reports whether the place need not be asked for: nothing has come of what
// it was waited for, and it was told less than a lease ago (queue-Q3).
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
		return nil // it has entered again, or could not take the lock
	}
	limit := never
	if at, renews := w.due(); renews {
		limit = max(0, at.Sub(w.backend.now()))
	}
	return w.claim.entry.Wait(ctx, limit)
}
