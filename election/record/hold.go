package record

import (
	"context"
	"fmt"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/claims"
)

// Renew writes a new heartbeat.
func (b *Backend) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	name := grant.Claim.Election
	b.mu.Lock()
	renewal := b.memory(name).Renewal(grant)
	b.mu.Unlock()
	if renewal == nil {
		return grant, b.fail("renew", name, fmt.Errorf("%w: released", election.ErrLost))
	}
	done, err := (&call{b: b, op: renewal, name: name, lease: grant.Claim.Lease}).run(ctx)
	if err != nil {
		return grant, b.fail("renew", name, err)
	}
	return done.Grant, nil
}

// Release removes the claim from the record, wherever it is, and makes sure that none of its
// writes can take effect any more (record-R5).
func (b *Backend) Release(ctx context.Context, grant election.Grant) error {
	name := grant.Claim.Election
	b.mu.Lock()
	release := b.memory(name).Release(grant)
	stop := b.stops[grant.Claim.Nonce]
	delete(b.stops, grant.Claim.Nonce)
	b.mu.Unlock()
	if stop != nil {
		stop()
	}
	if _, err := (&call{b: b, op: release, name: name, lease: grant.Claim.Lease}).run(ctx); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		release.Abandon()
		return b.fail("release", name, err)
	}
	return nil
}

// Nominate names the candidate in the record, and waits until it has become the successor and has
// reported that it is ready. A candidate that sends no heartbeat within a lease counts as gone.
func (b *Backend) Nominate(ctx context.Context, grant election.Grant, id string) error {
	claim := grant.Claim
	n := &claims.Nomination{Nonce: claim.Nonce, ID: id, Until: b.now().Add(grant.Lease)}
	err := b.nominate(ctx, grant, n)
	if err != nil {
		// The queue is restored to what it was, as far as the store answers, even if the
		// nomination failed because its context ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.limit(grant.Lease))
		defer cancel()
		_, _ = b.change(ctx, claim, claims.Withdrawal{Nonce: claim.Nonce})
		return b.fail("hand over", claim.Election, err)
	}
	return nil
}

func (b *Backend) nominate(ctx context.Context, grant election.Grant, n *claims.Nomination) error {
	for {
		version, err := b.change(ctx, grant.Claim, n)
		if err != nil || n.Ready {
			return err
		}
		// Our own change wakes us one time more than necessary.
		if _, err := b.await(ctx, grant.Claim.Election, version, grant.Lease/4, grant.Lease); err != nil {
			return err
		}
	}
}

// change reads, lets the editor decide what to write, and writes, until it is done. It returns
// the last version that the editor saw.
func (b *Backend) change(ctx context.Context, claim election.Claim, editor claims.Editor) (string, error) {
	b.mu.Lock()
	change := b.memory(claim.Election).Change(claim.Nonce, editor)
	b.mu.Unlock()
	done, err := (&call{b: b, op: change, name: claim.Election, lease: claim.Lease}).run(ctx)
	return done.Version, err
}
