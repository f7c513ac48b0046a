package queue

import (
	"context"

	"github.com/conclave-project/conclave/election"
)

// Nominate chooses the first waiter with this id, and returns once that waiter is ready and will
// lead next if the grant ends by a release. A candidate of another client library is always ready.
func (b *Backend) Nominate(ctx context.Context, grant election.Grant, id string) error {
	c, err := b.held(grant)
	if err == nil {
		err = b.nominate(ctx, c, id)
	}
	if err != nil {
		return b.fail("nominate "+id+" in", grant.Claim.Election, err)
	}
	return nil
}

func (b *Backend) nominate(ctx context.Context, c *claim, id string) error {
	c.setSuccessor(nil)
	chosen, err := choose(c.entry.Waiters(ctx), id)
	if err != nil {
		return err
	}
	if !chosen.Foreign {
		if err := b.awaitReady(ctx, c, chosen); err != nil {
			return err
		}
	}
	if err := c.entry.Promote(ctx, chosen); err != nil {
		return err
	}
	c.setSuccessor(&chosen)
	return nil
}

// awaitReady tells the waiter that it was chosen, and waits until it is ready.
func (b *Backend) awaitReady(ctx context.Context, c *claim, chosen Candidate) error {
	n, err := c.entry.Nominate(ctx, chosen)
	for err == nil {
		if n, err = c.entry.Answered(ctx, chosen, n); err == nil {
			var ready bool
			if ready, err = n.answer(); ready {
				return nil
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return err
}
