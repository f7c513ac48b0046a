package record

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/conclave-project/conclave/election"
)

// The pause after the first failed read or write of a candidate in line, and the
// limit to which it doubles: many who wait must not keep an ailing store down.
const (
	retryPause    = 100 * time.Millisecond
	retryPauseMax = 5 * time.Second
)

// candidate is one call of Acquire.
type candidate struct {
	backend *Backend
	claim   election.Claim
	state   *state

	version  string           // of the record when it was looked at last
	answered election.Instant // when the store has answered last
	failures int              // in a row
	beaten   election.Instant // when this candidate's beat was written last
	warmth   warmth
	warmed   chan error // the outcome of Warm

	behind bool             // it has stood behind the next in line
	joinAt election.Instant // before when it leaves the place to others
}

// Acquire waits until the election is vacant and this claim first in line.
func (b *Backend) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &state{election: claim.Election, lease: claim.Lease, stop: stop}
	b.mu.Lock()
	b.claims[claim.Nonce] = s
	b.mu.Unlock()
	c := &candidate{backend: b, claim: claim, state: s, warmed: make(chan error, 1), answered: b.now()}
	for {
		grant, again, err := c.turn(ctx, work)
		switch {
		case err == nil && grant.Token != 0:
			b.watchNews(work, s, &grant)
			return grant, nil
		case err == nil:
			c.answered, c.failures = b.now(), 0
		case c.hopeless(ctx, err):
			return election.Grant{}, b.fail("wait for", claim.Election, err)
		}
		if err := c.wait(ctx, again, err != nil); err != nil {
			return election.Grant{}, b.fail("wait for", claim.Election, err)
		}
	}
}

// hopeless says whether the candidate has to leave the line: a store that does
// not answer is asked again for the time of a lease.
func (c *candidate) hopeless(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, election.ErrPermanent) ||
		c.backend.now().Sub(c.answered) > c.claim.Lease
}

// turn looks at the record and makes one move. It returns a grant with a token
// when this claim leads, and otherwise when to look again at the latest, the
// zero Instant being at once.
func (c *candidate) turn(ctx, work context.Context) (election.Grant, election.Instant, error) {
	b, name := c.backend, c.claim.Election
	seen, err := b.read(ctx, name, c.claim.Lease)
	if err != nil {
		return election.Grant{}, 0, err
	}
	if seen.record.Nonce == c.claim.Nonce {
		return c.undo(ctx, seen)
	}
	c.version = seen.version
	c.hearNomination(work, seen)
	move, again := seen.decide(c.claim, c.warmth, c.beaten, b.now())
	if move == join {
		move, again = c.giveRoom(seen)
	}
	record := seen.record
	switch move {
	case stay:
		if next := record.Next; next != nil && next.Nonce != c.claim.Nonce {
			c.behind, c.joinAt = true, 0
		}
		return election.Grant{}, again, nil
	case take:
		return c.take(ctx, seen)
	case join:
		record = record.with(joined(c.claim, c.beat(record)))
	case touch:
		record = record.with(record.Next.in(record.Next.State))
	case ready:
		record = record.with(record.Next.in(StateReady))
	case cold:
		record = record.with(record.Next.in(StateCold))
	}
	sent := b.now()
	if err := c.write(ctx, record, seen.version); err != nil && !errors.Is(err, ErrConflict) {
		return election.Grant{}, 0, err
	} else if err == nil {
		c.beaten = sent
		if move == cold {
			c.warmth = notAsked // to be nominated from here on is to be asked anew
		}
	}
	return election.Grant{}, 0, nil
}

// giveRoom lets those who stood in line together come to the free place one
// after the other: the first that does spares the others a write (R3).
func (c *candidate) giveRoom(seen sight) (move, election.Instant) {
	now := c.backend.now()
	free := now >= seen.nextGoneAt()
	switch {
	case !free || !c.behind || seen.record.Wanted == c.claim.ID:
		return join, now
	case c.joinAt == 0:
		c.joinAt = now.Add(rand.N(c.claim.Lease/8 + 1))
	}
	if now < c.joinAt {
		return stay, c.joinAt
	}
	c.joinAt = 0
	return join, now
}

// write writes unless the claim was released meanwhile, or Acquire is to end.
func (c *candidate) write(ctx context.Context, record Record, version string) error {
	s := c.state
	s.mu.Lock()
	over := s.over || ctx.Err() != nil
	if !over {
		s.expect(version)
	}
	s.mu.Unlock()
	if over {
		return errReleased
	}
	return c.backend.write(ctx, c.claim.Election, record, version, s)
}

var errReleased = errors.New("the claim was withdrawn")

// beat returns one that differs from that of the candidate displaced.
func (c *candidate) beat(record Record) uint64 {
	if record.Next == nil {
		return 1
	}
	return record.Next.Beat + 1
}

func (c *candidate) take(ctx context.Context, seen sight) (election.Grant, election.Instant, error) {
	incarnation := ""
	if store, ok := c.backend.store.(Incarnated); ok {
		incarnation = store.Incarnation()
	}
	seen.record = seen.record.taken(c.claim, seen.known(incarnation), incarnation, c.backend.wall())
	return c.lead(ctx, seen)
}

// undo takes this claim out of the record again, where it is the holder by a write
// that was not acknowledged, and perhaps forgotten since by others: what a read
// shows is no grant (R7). It then takes the election as any other does, by a write
// that the store judges as one.
func (c *candidate) undo(ctx context.Context, seen sight) (election.Grant, election.Instant, error) {
	err := c.write(ctx, seen.record.undone(), seen.version)
	if errors.Is(err, ErrConflict) {
		err = nil
	}
	return election.Grant{}, 0, err
}

// lead writes the record that names this claim as the holder. The grant is the
// store's acknowledgement, and counts from when this write was sent.
func (c *candidate) lead(ctx context.Context, seen sight) (election.Grant, election.Instant, error) {
	seen.record.Beat = c.state.nextBeat(seen.record.Beat)
	sent := c.backend.now()
	err := c.write(ctx, seen.record, seen.version)
	var notYet *NotYetError
	switch {
	case errors.Is(err, ErrConflict):
		return election.Grant{}, 0, nil
	case errors.As(err, &notYet):
		return election.Grant{}, sent.Add(notYet.After), nil
	case err != nil:
		return election.Grant{}, 0, err
	}
	return seen.fill(election.Grant{Claim: c.claim, Sent: sent}), 0, nil
}

// fill puts what the record says of its holder into the grant.
func (s *sight) fill(grant election.Grant) election.Grant {
	grant.Token = s.record.Token
	grant.Lease = milliseconds(s.record.LeaseMs)
	grant.Request = s.record.Request
	grant.Rival = ""
	if next := s.record.Next; next != nil && next.Priority > s.record.Priority {
		grant.Rival = next.ID
	}
	return grant
}

// hearNomination begins to warm up when the record says so, and notes how that
// went.
func (c *candidate) hearNomination(work context.Context, seen sight) {
	select {
	case err := <-c.warmed:
		c.warmth = warm
		if err != nil {
			c.warmth = failed
		}
	default:
	}
	next := seen.record.Next
	mine := next != nil && next.Nonce == c.claim.Nonce
	if mine && next.State == StateNominated && c.warmth == notAsked {
		c.warmth = warming
		go func() { c.warmed <- c.warm(work) }()
	}
}

func (c *candidate) warm(ctx context.Context) error {
	if c.claim.Warm == nil {
		return nil
	}
	return c.claim.Warm(ctx)
}

// wait returns when the record may have changed or the time has come. The end
// of a warm-up ends it too.
func (c *candidate) wait(ctx context.Context, at election.Instant, failed bool) error {
	limit := at.Sub(c.backend.now())
	switch {
	case failed:
		return c.sleepLonger(ctx)
	case at == 0 || limit <= 0:
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.warmth == warming {
		done := make(chan struct{})
		defer close(done)
		go c.wakeWhenWarm(cancel, done)
	}
	err := c.backend.await(ctx, c.claim.Election, c.version, min(limit, c.claim.Lease), c.claim.Lease)
	if context.Cause(ctx) == errWarm {
		return nil
	}
	if err != nil && ctx.Err() == nil {
		return c.sleepLonger(ctx) // the next read tells more
	}
	return err
}

var errWarm = errors.New("warm")

// wakeWhenWarm hands the outcome on and ends the wait.
func (c *candidate) wakeWhenWarm(cancel context.CancelCauseFunc, done <-chan struct{}) {
	select {
	case err := <-c.warmed:
		c.warmed <- err
		cancel(errWarm)
	case <-done:
	}
}

// sleepLonger sleeps longer with every failure in a row, and not as long as
// others.
func (c *candidate) sleepLonger(ctx context.Context) error {
	pause := min(retryPause, c.claim.Lease/10) << min(c.failures, 10)
	pause = min(pause, retryPauseMax, max(c.claim.Lease/4, 1))
	c.failures++
	return c.sleep(ctx, pause/2+rand.N(pause/2+1))
}

func (c *candidate) sleep(ctx context.Context, d time.Duration) error {
	b := c.backend
	timer := b.options.Clock.Timer(b.now().Add(d))
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *Backend) lastSeen(name string) sight {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sights[name]; s != nil {
		return *s
	}
	return sight{}
}
