package azureblob

import (
	"context"
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/conclave-project/conclave/election/record"
)

const (
	// retryPause is the pause after a request that failed.
	retryPause = 200 * time.Millisecond
	// readyPause is the pause between two attempts of a candidate that was told that it
	// leads next. It applies for at most a lease.
	readyPause = 50 * time.Millisecond
	// courtesyMax is how long the line may delay an election.
	courtesyMax = 2 * time.Second
)

// candidate is one call of Acquire.
type candidate struct {
	backend *Backend
	claim   election.Claim
	claimed *claimed
	lease   time.Duration

	answered  clock.Instant // when the service last answered
	touchedAt clock.Instant // when this candidate's heartbeat was last written
	next      mark
	warmth    warmth
	warmed    chan error    // result of Warm
	hurry     clock.Instant // until when to try in quick succession
	unsure    bool          // an attempt may have taken the lease
}

// warmth is the progress of a nominated candidate.
type warmth uint8

const (
	notAsked warmth = iota
	warming
	warm
	failed
)

// Acquire waits until it is this claim's turn and the lease is free, and then stores the next
// token.
func (b *Backend) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &candidate{backend: b, claim: claim, claimed: &claimed{stop: stop}, lease: leaseOf(claim),
		answered: b.now(), warmed: make(chan error, 1)}
	b.mu.Lock()
	b.sweep()
	b.claims[claim.Nonce] = c.claimed
	b.mu.Unlock()
	for {
		grant, err := c.turn(ctx, work)
		switch {
		case err == nil && grant.Token != 0:
			return grant, nil
		case err == nil:
			c.answered = c.backend.now()
		case c.hopeless(ctx, err):
			return election.Grant{}, b.fail("wait for", claim.Election, err)
		}
		if err := c.wait(ctx, err != nil); err != nil {
			return election.Grant{}, b.fail("wait for", claim.Election, err)
		}
	}
}

// turn reads the line and does what this claim has to do. A grant without a token means
// that the claim has to wait.
func (c *candidate) turn(ctx, work context.Context) (election.Grant, error) {
	l, etag, err := c.backend.readLine(ctx, c.claim.Election)
	if err != nil {
		return election.Grant{}, err
	}
	now := c.backend.now()
	alive := c.next.alive(l.Next, now)
	mine := l.Next != nil && l.Next.Nonce == c.claim.Nonce
	if mine || !alive || c.unsure || now < c.hurry {
		grant, err := c.try(ctx)
		if err != nil || grant.Token != 0 {
			return grant, err
		}
	}
	c.onNomination(work, l, mine)
	return election.Grant{}, c.stand(ctx, l, etag, alive, mine)
}

// hopeless reports whether the candidate must give up. If the service does not answer, the
// candidate tries for the time of a lease.
func (c *candidate) hopeless(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, election.ErrPermanent) ||
		c.backend.now().Sub(c.answered) > c.lease
}

// try asks for the lease once. A grant without a token means that another candidate has it.
func (c *candidate) try(ctx context.Context) (election.Grant, error) {
	lock := c.backend.lock(c.claim.Election)
	work, cancel := remaining(ctx)
	defer cancel()
	c.unsure = true // until the outcome is known
	sent := c.backend.now()
	err := lock.acquire(work, idOf(c.claim), c.lease)
	if isCode(err, bloberror.BlobNotFound) {
		if err := lock.make(work); err != nil {
			return election.Grant{}, err
		}
		sent = c.backend.now()
		err = lock.acquire(work, idOf(c.claim), c.lease)
	}
	if isCode(err, codesTaken...) {
		c.unsure = false
		return election.Grant{}, nil
	}
	if err != nil {
		return election.Grant{}, err
	}
	return c.take(ctx, sent)
}

// take turns the lease into a grant: it stores the next token (azureblob-A3). A token that
// an earlier attempt has stored, and whose answer was lost, is valid too.
func (c *candidate) take(ctx context.Context, sent clock.Instant) (election.Grant, error) {
	b, name := c.backend, c.claim.Election
	found, err := b.readLock(ctx, name)
	if err != nil {
		return election.Grant{}, err
	}
	now := found.state
	if now.Nonce != c.claim.Nonce {
		now = now.taken(c.claim, wall())
		err := b.writeLock(ctx, name, now, found.etag, idOf(c.claim))
		if isCode(err, codesNoLease...) || isCode(err, codesChanged...) {
			// Another candidate has it by now, or a write of an earlier attempt was late:
			// the next attempt finds out which.
			return election.Grant{}, nil
		}
		if err != nil {
			return election.Grant{}, err
		}
	}
	c.tidy(ctx, now.Token)
	return election.Grant{Claim: c.claim, Token: now.Token, Sent: sent, Lease: c.lease}, nil
}

// tidy removes from the line what belongs to the previous leadership. The new leadership
// does not depend on it.
func (c *candidate) tidy(ctx context.Context, token election.Token) {
	ctx, cancel := context.WithTimeout(ctx, courtesyMax)
	defer cancel()
	_ = c.backend.changeLine(ctx, c.claim.Election, c.claimed, func(l line) (line, bool, error) {
		l, needed := l.tidied(c.claim.Nonce, token)
		return l, needed, nil
	})
}

// stand does what is to be done in the line while another candidate leads. If somebody else
// has changed the line, the next turn finds out.
func (c *candidate) stand(ctx context.Context, l line, etag azcore.ETag, alive, mine bool) error {
	now := c.backend.now()
	switch {
	case mine && l.Next.State == record.StateNominated && c.warmth == warm:
		l = l.heartbeatAs(c.claim, record.StateReady)
		c.hurry = now.Add(c.lease)
	case mine && l.Next.State == record.StateNominated && c.warmth == failed:
		l = l.heartbeatAs(c.claim, record.StateNotReady)
	case mine && now >= c.touchedAt.Add(c.lease/3):
		l = l.heartbeatAs(c.claim, l.Next.State)
	case !mine && (!alive || l.yieldsTo(c.claim)):
		l = l.heartbeatAs(c.claim, "")
	default:
		return nil
	}
	err := c.backend.writeLine(ctx, c.claim.Election, l, etag, c.claimed)
	if isCode(err, codesChanged...) {
		return nil
	}
	if err != nil {
		return err
	}
	c.touchedAt = now
	if l.Next.State == record.StateNotReady {
		c.warmth = notAsked // a leader that nominates again repeats the request
	}
	return nil
}

// yieldsTo reports whether the claim may replace a successor that is alive: it is the one
// that the holder wants, or it has a higher priority and the holder has not chosen anybody.
func (l line) yieldsTo(claim election.Claim) bool {
	switch {
	case l.Wanted != "":
		return claim.ID == l.Wanted && l.Next.ID != l.Wanted
	case l.Next.State != "":
		return false
	}
	return claim.Priority > l.Next.Priority
}

// onNomination begins the warm-up when the line asks for it, and records the result.
func (c *candidate) onNomination(work context.Context, l line, mine bool) {
	select {
	case err := <-c.warmed:
		c.warmth = warm
		if err != nil {
			c.warmth = failed
		}
	default:
	}
	if mine && l.Next.State == record.StateNominated && c.warmth == notAsked {
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

// wait returns when it is time to try again, or when a warm-up has ended.
func (c *candidate) wait(ctx context.Context, broken bool) error {
	poll := c.backend.pollOf(c.lease)
	d := polling.Jitter(poll)
	switch {
	case broken:
		d = min(retryPause, poll)
	case c.backend.now() < c.hurry:
		d = min(readyPause, poll)
	}
	if c.warmth != warming {
		return polling.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-c.warmed:
		c.warmed <- err
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
