package azureblob

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/conclave-project/conclave/election/record"
)

// Renew renews the lease, and reads the line at the same time. A line that does not answer delays
// no renewal.
func (b *Backend) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	name := grant.Claim.Election
	c := b.claimed(grant.Claim.Nonce)
	if c == nil {
		return grant, b.fail("renew", name, fmt.Errorf("%w: released", election.ErrLost))
	}
	news := make(chan struct{})
	look, cancel := context.WithTimeout(ctx, min(grant.Lease/10, courtesyMax))
	defer cancel()
	go func() {
		defer close(news)
		b.lookAtLine(look, grant, c)
	}()
	sent := b.now()
	err := b.lock(name).renew(ctx, idOf(grant.Claim))
	if isCode(err, codesNoLease...) {
		err = fmt.Errorf("%w: %w", election.ErrLost, err)
	}
	if err != nil {
		return grant, b.fail("renew", name, err)
	}
	<-news
	grant.Sent = sent
	c.mu.Lock()
	defer c.mu.Unlock()
	grant.Rival, grant.Request = c.rival, c.request
	return grant, nil
}

// lookAtLine records the waiter that outranks the holder, and the operator's request.
func (b *Backend) lookAtLine(ctx context.Context, grant election.Grant, c *claimed) {
	l, _, err := b.readLine(ctx, grant.Claim.Election)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rival, c.request = "", nil
	next := l.Next
	if c.next.alive(next, b.now()) && next.Nonce != grant.Claim.Nonce && next.Priority > grant.Claim.Priority {
		c.rival = next.ID
	}
	if l.Request != nil && l.Request.Token == grant.Token {
		c.request = l.Request
	}
}

// Release ends the lease, or hands it over to a candidate that was nominated and is ready, or to
// the first to come, and removes the claim from the line.
func (b *Backend) Release(ctx context.Context, grant election.Grant) error {
	claim := grant.Claim
	c := b.claimed(claim.Nonce)
	if c == nil {
		return nil // nothing was ever requested for it
	}
	c.stop()
	err := b.giveUp(ctx, grant, c)
	if err == nil {
		err = b.leaveLine(ctx, claim.Election, claim.Nonce, c)
	}
	if err != nil {
		b.leftLate(c)
		return b.fail("release", claim.Election, err)
	}
	b.mu.Lock()
	delete(b.claims, claim.Nonce)
	b.mu.Unlock()
	return nil
}

// giveUp returns nil once the claim has no lease.
func (b *Backend) giveUp(ctx context.Context, grant election.Grant, c *claimed) error {
	name, id := grant.Claim.Election, idOf(grant.Claim)
	successor := ""
	if err := b.signOff(ctx, grant); err != nil && grant.Token != 0 {
		return err
	}
	if grant.Token != 0 {
		successor = b.readyNext(ctx, name, c)
	}
	var err error
	if successor != "" {
		err = b.lock(name).handOver(ctx, id, successor)
	} else {
		err = b.lock(name).release(ctx, id)
	}
	if isCode(err, codesNoLease...) {
		return nil
	}
	return err
}

// signOff records in the lock's blob that the leadership has ended, and why, unless another
// claim already holds it. A grant whose answer was lost never led; it is recorded as
// withdrawn.
func (b *Backend) signOff(ctx context.Context, grant election.Grant) error {
	name := grant.Claim.Election
	found, err := b.readLock(ctx, name)
	if err != nil || found.state.Nonce != grant.Claim.Nonce {
		return err
	}
	err = b.writeLock(ctx, name, found.state.released(grant.Ended, wall()), found.etag, idOf(grant.Claim))
	if isCode(err, codesNoLease...) || isCode(err, codesChanged...) {
		return nil
	}
	return err
}

// readyNext returns the lease id of the candidate that was nominated and is ready; empty
// for none. The candidate may have gone since; in that case the election is free when the
// lease has run out.
func (b *Backend) readyNext(ctx context.Context, name string, c *claimed) string {
	ctx, cancel := context.WithTimeout(ctx, courtesyMax)
	defer cancel()
	l, _, err := b.readLine(ctx, name)
	if err != nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.next.alive(l.Next, b.now()) || l.Next.State != record.StateReady {
		return ""
	}
	return leaseID(l.Next.Nonce)
}

var errNotReady = errors.New("the candidate could not warm up")

// Nominate names the candidate in the line, and waits until it has become the successor and has
// reported that it is ready. A candidate that sends no heartbeat within half a lease counts as
// gone.
func (b *Backend) Nominate(ctx context.Context, grant election.Grant, id string) error {
	name := grant.Claim.Election
	c := b.claimed(grant.Claim.Nonce)
	if c == nil {
		return b.fail("hand over", name, election.ErrLost)
	}
	n := &nomination{backend: b, claimed: c, id: id, until: b.now().Add(grant.Lease / 2)}
	err := b.nominate(ctx, name, n)
	if err != nil {
		b.withdraw(ctx, name, c)
		return b.fail("hand over", name, err)
	}
	return nil
}

// nomination is one call of Nominate.
type nomination struct {
	backend *Backend
	claimed *claimed
	id      string
	until   clock.Instant // by then the candidate must have written a heartbeat
	ready   bool
}

func (b *Backend) nominate(ctx context.Context, name string, n *nomination) error {
	for {
		err := b.changeLine(ctx, name, n.claimed, n.edit)
		if err != nil || n.ready {
			return err
		}
		if err := polling.Sleep(ctx, min(retryPause, b.pollOf(LeaseMin))); err != nil {
			return err
		}
	}
}

// edit makes the next step towards a ready successor.
func (n *nomination) edit(l line) (line, bool, error) {
	now := n.backend.now()
	n.claimed.mu.Lock()
	alive := n.claimed.next.alive(l.Next, now)
	n.claimed.mu.Unlock()
	if !alive || l.Next.ID != n.id {
		if now >= n.until {
			return l, false, fmt.Errorf("%w: %q", election.ErrNoCandidate, n.id)
		}
		changed := l.Wanted != n.id
		l.Wanted = n.id
		return l, changed, nil
	}
	switch l.Next.State {
	case record.StateReady:
		n.ready = true
		return l, false, nil
	case record.StateNotReady:
		return l, false, errNotReady
	case record.StateNominated:
		return l, false, nil
	}
	l.Wanted = n.id
	return l.in(record.StateNominated), true, nil
}

// withdraw undoes the nomination in the line, if the service answers.
func (b *Backend) withdraw(ctx context.Context, name string, c *claimed) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), courtesyMax)
	defer cancel()
	_ = b.changeLine(ctx, name, c, func(l line) (line, bool, error) {
		needed := l.Wanted != ""
		l.Wanted = ""
		if l.Next != nil && l.Next.State != "" {
			l, needed = l.in(""), true
		}
		return l, needed, nil
	})
}
