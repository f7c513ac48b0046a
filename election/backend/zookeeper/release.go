package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/zk"
)

// clearPause is the pause between two tries to remove what a failed release
// has left.
const clearPause = 200 * time.Millisecond

// Release deletes the claim's znode; that of a leader with one transaction that
// closes its entry in the book and lets the nominee pass. Where it is not known whether there is
// one, it is looked for by its nonce first. With a session that is over it is
// looked for, too: the servers may think otherwise.
//
// After a failure it goes on in the background. The session may live on for
// other elections, and with it a znode that leads for nobody.
func (b *Backend) Release(ctx context.Context, grant election.Grant) error {
	s := b.seat(grant.Claim.Nonce)
	if s == nil {
		return nil // nothing was ever sent for it
	}
	s.leave()
	if b.leaveOffice(ctx, s, grant) {
		b.setSeat(grant.Claim.Nonce, nil)
		return nil
	}
	err := b.remove(ctx, s, grant.Claim)
	if err != nil {
		s.clearing.Do(func() { b.group.Go(func() { b.clear(s, grant.Claim) }) })
	}
	return err
}

// clear removes what is left of a claim, as long as it takes.
func (b *Backend) clear(s *seat, claim election.Claim) {
	for b.remove(b.life, s, claim) != nil {
		select {
		case <-time.After(clearPause):
		case <-b.life.Done():
			return
		}
	}
}

func (b *Backend) remove(ctx context.Context, s *seat, claim election.Claim) error {
	path, c, err := b.whatIsLeft(ctx, s, claim)
	if err == nil && path != "" {
		err = c.Delete(ctx, path, -1)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("zookeeper: release %q: %w", claim.Election, err)
	}
	b.setSeat(claim.Nonce, nil)
	return nil
}

// whatIsLeft returns the znode of a claim and a session that can delete it, ""
// when there is none.
func (b *Backend) whatIsLeft(ctx context.Context, s *seat, claim election.Claim) (string, *client.Client, error) {
	if spot := s.spot.Load(); spot != nil && s.session.Err() == nil {
		return spot.path, s.session, nil
	}
	c, err := b.session(ctx, claim.Lease)
	if err != nil {
		return "", nil, err
	}
	path, err := c.FindProtected(ctx, s.parent, prefix(claim))
	if errors.Is(err, zk.ErrNoNode) {
		return "", c, nil
	}
	return path, c, err
}
