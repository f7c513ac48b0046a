package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/internal/tenures"
)

// historyTries is how often writing the history is tried when others change it meanwhile.
const historyTries = 3

// wall returns the wall-clock time, for people.
func wall() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// takeUp proves that the claim leads and, if possible, writes it into the history in the same
// decision (queue-Q8).
func (b *Backend) takeUp(ctx context.Context, c *claim, token election.Token) (election.Grant, error) {
	grant := election.Grant{Claim: c.Claim, Token: token, Lost: c.lost, News: c.news}
	if guarded, ok := c.entry.(Guarded); ok {
		grant.Guard = guarded.Condition()
	}
	lease, err := c.entry.Renew(ctx)
	if err != nil {
		return grant, err
	}
	for range historyTries {
		history, err := c.entry.History(ctx)
		if err == nil {
			history.Tenures = tenures.Begin(history.Tenures, c.ID, token, wall())
			var proof Proof
			if proof, err = c.entry.Prove(ctx, &history); err == nil {
				history.Version = proof.Version
				return proof.fill(grant, lease), c.setGranted(token, &history)
			}
		}
		if errors.Is(err, ErrNoHistory) {
			break
		}
		if !errors.Is(err, ErrConflict) {
			return grant, err
		}
	}
	proof, err := c.entry.Prove(ctx, nil)
	if err == nil {
		err = c.setGranted(token, nil)
	}
	return proof.fill(grant, lease), err
}

// fill returns the grant with what was proved after a renewal.
func (p Proof) fill(grant election.Grant, lease Lease) election.Grant {
	if p.Length != 0 {
		lease = p.Lease
	}
	grant.Sent, grant.Lease = lease.Sent, lease.Length
	grant.Request, grant.Rival = p.asked(grant.Token), p.Rival
	return grant
}

var errReleased = fmt.Errorf("%w: it was released", election.ErrLost)

// held returns the claim of a grant that was not released.
func (b *Backend) held(grant election.Grant) (*claim, error) {
	c := b.claim(grant.Claim.Nonce)
	if c == nil || c.life.Err() != nil {
		return nil, errReleased
	}
	if token, _, _ := c.granted(); token == 0 {
		return nil, errReleased
	}
	return c, nil
}

// Renew proves the grant again.
func (b *Backend) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	c, err := b.held(grant)
	var lease Lease
	if err == nil {
		lease, err = c.entry.Renew(ctx)
	}
	var proof Proof
	if err == nil {
		proof, err = c.entry.Prove(ctx, nil)
	}
	if err != nil {
		return grant, b.fail("renew in", grant.Claim.Election, err)
	}
	grant = proof.fill(grant, lease)
	c.prove(grant)
	return grant, nil
}

// Release gives up the election if the claim leads, to its successor if there is one, and then
// removes whatever is left of the claim (queue-Q7).
func (b *Backend) Release(ctx context.Context, grant election.Grant) error {
	var err error
	if c := b.claim(grant.Claim.Nonce); c != nil {
		c.end()
		b.stepDown(ctx, c, c.reason(grant.Ended))
		err = c.entry.Revoke(ctx)
		b.forget(c, err != nil)
	} else { // released before, or a claim of another Backend
		err = b.store.Entry(ctx, grant.Claim).Revoke(ctx)
	}
	if err != nil {
		return b.fail("release in", grant.Claim.Election, err)
	}
	return nil
}

// stepDown gives the election up, with a note in the history, if the claim leads. Its errors do
// not matter, because what is left is revoked next. But then a chosen successor would not be
// the next leader, so for its sake a request without an answer is repeated.
func (b *Backend) stepDown(ctx context.Context, c *claim, reason election.Reason) {
	token, history, successor := c.granted()
	for try := 1; token != 0 && try <= historyTries+1; try++ {
		var note *History
		if history != nil && try <= historyTries {
			note = &History{Tenures: tenures.End(history.Tenures, token, reason, wall()), Version: history.Version}
		}
		err := c.entry.Leave(ctx, note, successor)
		switch {
		case errors.Is(b.store.Mark(err), election.ErrLost):
			b.amend(ctx, c, token, reason)
			return
		case errors.Is(err, election.ErrNoCandidate):
			successor = nil
			continue
		case errors.Is(err, ErrNoHistory):
			history = nil
			continue
		case errors.Is(err, ErrConflict):
		case err == nil, successor == nil:
			return
		default:
			Pause(ctx)
		}
		if now, err := c.entry.History(ctx); history != nil && err == nil {
			history = &now
		}
	}
}

// amend records how a lost leadership ended, after others have led.
func (b *Backend) amend(ctx context.Context, c *claim, token election.Token, reason election.Reason) {
	history, err := c.entry.History(ctx)
	if err != nil || !amends(history.Tenures, token) {
		return
	}
	history.Tenures = tenures.End(history.Tenures, token, reason, wall())
	_ = c.entry.Note(ctx, history) // for people only
}
