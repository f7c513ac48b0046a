package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/ledger"
)

// takeUp proves that the claim holds the lock, after a renewal that was sent at
// the instant, and writes it into the history in the same transaction.
func (b *Backend) takeUp(ctx context.Context, s *seat, token election.Token, sent election.Instant, ttl time.Duration,
) (election.Grant, error) {
	grant := election.Grant{Claim: s.claim, Token: token, Sent: sent, Lease: ttl, Lost: s.lost, News: s.news}
	name := s.claim.Election
	for range historyTries {
		old, err := b.readHistory(ctx, name)
		if err != nil {
			return grant, err
		}
		changes := ledger.Begin(old.changes, s.claim.ID, token, time.Now().UTC())
		results, failed, err := b.transact(ctx, s.mine(), b.write(name, old.index, changes))
		switch {
		case err != nil:
			return grant, err
		case failed == 0:
			return grant, errNotHeld
		case failed < 0:
			s.setGranted(token, history{changes, results[1].ModifyIndex})
			return grant, nil
		}
	}
	// Nobody is kept from leading because the history cannot be written.
	grant, err := b.prove(ctx, s, grant)
	if err == nil {
		s.setGranted(token, history{})
	}
	return grant, err
}

// errNotHeld says that the key is not locked by the candidate's session.
var errNotHeld = fmt.Errorf("%w: the key is not locked by this candidate's session any more", election.ErrLost)

// Renew renews the session and proves that it locks the key.
func (b *Backend) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	err := fmt.Errorf("%w: it was released", election.ErrLost)
	if s := b.seat(grant.Claim.Nonce); s != nil && s.isGranted() && s.ctx.Err() == nil {
		grant, err = b.renew(ctx, s, grant)
	}
	if err != nil {
		return grant, fmt.Errorf("consul: renew in election %q: %w", grant.Claim.Election, mark(err))
	}
	return grant, nil
}

func (b *Backend) renew(ctx context.Context, s *seat, grant election.Grant) (election.Grant, error) {
	var err error
	if grant.Sent, grant.Lease, err = b.keepAlive(ctx, s); err != nil {
		return grant, err
	}
	return b.prove(ctx, s, grant)
}

// prove has a quorum confirm the lock, and fills in what the leader should
// know.
func (b *Backend) prove(ctx context.Context, s *seat, grant election.Grant) (election.Grant, error) {
	results, failed, err := b.consult(ctx, s.mine(), &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: s.request})
	if err != nil {
		return grant, err
	}
	if failed >= 0 {
		return grant, errNotHeld
	}
	grant.Request = nil
	var request election.Request
	if json.Unmarshal(results[1].Value, &request) == nil && request.Token == grant.Token {
		grant.Request = &request
	}
	grant.Rival = b.rival(ctx, s)
	return grant, nil
}

// rival returns the first candidate in line of the highest priority above that
// of the claim, and empty if there is none or if that cannot be found out now.
func (b *Backend) rival(ctx context.Context, s *seat) string {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	name := s.claim.Election
	options := (&api.QueryOptions{}).WithContext(ctx)
	segments, _, err := b.client.KV().Keys(b.lineKeys(name), "/", options)
	if err != nil || len(segments) == 0 {
		return ""
	}
	highest := segments[len(segments)-1] // they are sorted, and of equal length
	if b.priorityOf(name, highest) <= s.claim.Priority {
		return ""
	}
	pairs, _, err := b.client.KV().List(highest, options)
	if err != nil || len(pairs) == 0 {
		return ""
	}
	return line(pairs)[0].ID
}
