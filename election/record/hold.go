package record

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/election"
)

// conflictsMax is how often a renewal tries anew because others have written.
const conflictsMax = 5

// Renew writes a new beat.
func (b *Backend) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	s := b.claim(grant.Claim.Nonce)
	if s == nil {
		return grant, b.fail("renew", grant.Claim.Election, fmt.Errorf("%w: released", election.ErrLost))
	}
	for range conflictsMax {
		renewed, err := b.renewOnce(ctx, s, grant)
		if err == nil {
			return renewed, nil
		}
		var notYet *NotYetError // said of a record that has gone with its store: look again
		if !errors.Is(err, ErrConflict) && !errors.As(err, &notYet) {
			return grant, b.fail("renew", grant.Claim.Election, err)
		}
	}
	return grant, b.fail("renew", grant.Claim.Election, ErrConflict)
}

// renewOnce writes over what was written last, and only reads when something
// else was there.
func (b *Backend) renewOnce(ctx context.Context, s *state, grant election.Grant) (election.Grant, error) {
	name := grant.Claim.Election
	seen, fresh := b.written(name, s)
	if !fresh {
		var err error
		if seen, err = b.read(ctx, name, s.lease); err != nil {
			return grant, err
		}
		if seen.record.Nonce != grant.Claim.Nonce {
			return grant, fmt.Errorf("%w: %s", election.ErrLost, describe(seen.record))
		}
	}
	if b.now() >= seen.nextGoneAt() {
		seen.record.Next = nil
	}
	seen.record.Beat = s.nextBeat(seen.record.Beat)
	sent := b.now()
	if err := b.write(ctx, name, seen.record, seen.version, s); err != nil {
		return grant, err
	}
	grant.Sent = sent
	return seen.fill(grant), nil
}

// written is the record as this claim wrote it, if it may still be so. Whoever
// is next in line in it was not heard of since it was seen: a beat would have
// changed the version.
func (b *Backend) written(name string, s *state) (sight, bool) {
	seen := b.lastSeen(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	seen.record, seen.version = s.record, s.version
	return seen, s.fresh
}

// describe says who leads instead.
func describe(record Record) string {
	if record.Nonce == "" {
		return "the record has no holder"
	}
	return fmt.Sprintf("%q leads with token %d", record.Holder, record.Token)
}

// Release takes the claim out of the record, wherever it is, and makes sure
// that no write of it can take effect any more (R5).
func (b *Backend) Release(ctx context.Context, grant election.Grant) error {
	nonce, name := grant.Claim.Nonce, grant.Claim.Election
	s := b.claim(nonce)
	if s == nil { // not ours, or released before
		s = &state{election: name, lease: grant.Claim.Lease, stop: func() {}}
	} else if !s.withdraw() {
		b.forget(nonce)
		return nil // it has never written, and never will
	}
	_, err := b.change(ctx, name, s, func(seen sight) (Record, bool, error) {
		record, changed := seen.record, false
		if record.Next != nil && record.Next.Nonce == nonce {
			record, changed = record.with(nil), true
		}
		if record.Nonce == nonce {
			record, changed = record.released(b.wall(), grant.Ended), true
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !changed && s.pending[seen.version] {
			record.Touch++
			changed = true
		}
		return record, changed, nil
	})
	if err != nil {
		b.keep(name, nonce)
		return b.fail("release", name, err)
	}
	b.forget(nonce)
	return nil
}

// keep remembers a claim that could not be released. Whoever asked may ask again,
// and if not, the next look at the record that shows it gone ends it (sweep).
func (b *Backend) keep(name, nonce string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claims[nonce] != nil && !slices.Contains(b.stale[name], nonce) {
		b.stale[name] = append(b.stale[name], nonce)
	}
}

func (b *Backend) forget(nonce string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.claims, nonce)
}

// withdraw ends what goes on for the claim, and reports whether it has ever
// written anything.
func (s *state) withdraw() bool {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return s.wrote
}

// Nominate names the candidate in the record, and waits until it has become
// the next in line and said that it is ready. A candidate that does not show
// itself within a lease is not in line.
func (b *Backend) Nominate(ctx context.Context, grant election.Grant, id string) error {
	s := b.claim(grant.Claim.Nonce)
	if s == nil {
		return b.fail("hand over", grant.Claim.Election, election.ErrLost)
	}
	n := &nomination{backend: b, state: s, grant: grant, id: id, until: b.now().Add(grant.Lease)}
	err := n.run(ctx)
	if err != nil {
		n.withdraw(ctx)
		return b.fail("hand over", grant.Claim.Election, err)
	}
	return nil
}

// nomination is one call of Nominate.
type nomination struct {
	backend *Backend
	state   *state
	grant   election.Grant
	id      string
	until   election.Instant // by when the candidate must have shown itself
	ready   bool
}

var errCold = errors.New("the candidate could not warm up")

func (n *nomination) run(ctx context.Context) error {
	b, name := n.backend, n.grant.Claim.Election
	for {
		version, err := b.change(ctx, name, n.state, n.edit)
		if err != nil || n.ready {
			return err
		}
		// Our own change wakes us once more than needed.
		if err := b.await(ctx, name, version, n.grant.Lease/4, n.grant.Lease); err != nil {
			return err
		}
	}
}

// edit makes the next step towards a successor that is ready.
func (n *nomination) edit(seen sight) (Record, bool, error) {
	record, now := seen.record, n.backend.now()
	if record.Nonce != n.grant.Claim.Nonce {
		return record, false, fmt.Errorf("%w: %s", election.ErrLost, describe(record))
	}
	next := record.Next
	if next == nil || next.ID != n.id || now >= seen.nextGoneAt() {
		if now >= n.until {
			return record, false, fmt.Errorf("%w: %q", election.ErrNoCandidate, n.id)
		}
		changed := record.Wanted != n.id
		record.Wanted = n.id
		return record, changed, nil
	}
	switch next.State {
	case StateReady:
		n.ready = true
		return record, false, nil
	case StateCold:
		return record, false, errCold
	case StateNominated:
		return record, false, nil
	}
	chosen := *next
	chosen.State = StateNominated
	record.Wanted = n.id
	return record.with(&chosen), true, nil
}

// withdraw lets the line be as it was before, as far as the store answers, also
// when it was the end of the context that ended the nomination.
func (n *nomination) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.backend.limit(n.grant.Lease))
	defer cancel()
	_, _ = n.backend.change(ctx, n.grant.Claim.Election, n.state, func(seen sight) (Record, bool, error) {
		record := seen.record
		if record.Nonce != n.grant.Claim.Nonce || record.Wanted == "" {
			return record, false, nil
		}
		record.Wanted = ""
		if record.Next != nil {
			plain := *record.Next
			plain.State = ""
			record.Next = &plain
		}
		return record, true, nil
	})
}

// watchNews tells the holder when its record carries a request, once of each, and
// when the record is another's, on stores that tell of changes. A request that
// nobody can carry out stays in the record: every renewal would be news of it.
func (b *Backend) watchNews(ctx context.Context, s *state, grant *election.Grant) {
	watcher, ok := b.store.(Watcher)
	if !ok || !watcher.Watches() {
		return
	}
	news, lost := make(chan struct{}, 1), make(chan struct{})
	grant.News, grant.Lost = news, lost
	claim, lease := grant.Claim, grant.Lease
	go func() {
		var told election.Request
		for version := ""; ctx.Err() == nil; {
			if b.await(ctx, claim.Election, version, lease, lease) != nil {
				return // the renewals find out
			}
			if own, fresh := s.last(); fresh && own != version {
				version = own // what has changed was our own doing
				continue
			}
			seen, err := b.read(ctx, claim.Election, lease)
			switch {
			case err != nil:
				return
			case seen.record.Nonce != claim.Nonce:
				close(lost)
				return
			case seen.record.Request != nil && *seen.record.Request != told:
				told = *seen.record.Request
				select {
				case news <- struct{}{}:
				default:
				}
			}
			version = seen.version
		}
	}()
}

// last is the version that this claim wrote last, if it may still be so.
func (s *state) last() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.fresh
}
