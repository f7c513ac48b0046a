package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/ledger"
)

// Release deletes the key, with a note in the history if it has led, and then
// revokes the lease, which takes away whatever there is of the claim (D4). A
// lease that cannot be revoked ends by itself: nobody keeps it alive any more.
func (b *Backend) Release(ctx context.Context, grant election.Grant) error {
	if s := b.take(grant.Claim.Nonce); s != nil {
		s.leave()
		if granted, h := s.isGranted(); granted {
			b.resign(ctx, s, h, grant.Ended)
		}
	}
	_, err := b.client.Revoke(ctx, leaseID(grant.Claim.Nonce))
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("etcd: release in election %q: %w", grant.Claim.Election, mark(err))
	}
	return nil
}

// resign deletes the key and notes in the history why. Its errors do not
// matter: the lease is revoked next.
func (b *Backend) resign(ctx context.Context, s *seat, h history, reason election.Reason) {
	name, token := s.claim.Election, election.Token(s.revision())
	note := b.write(name, ledger.End(h.changes, token, reason, time.Now()))
	answer, err := b.client.Txn(ctx).
		If(append(h.unchanged(b, name), s.mine())...).
		Then(append(note, clientv3.OpDelete(s.key))...).
		Commit()
	if err != nil || answer.Succeeded {
		return
	}
	// The leadership was lost, and others have led since.
	h, err = b.readHistory(ctx, name)
	if c, found := ledger.Find(h.changes, token); err != nil || !found || c.Reason != "" && c.Reason != ledger.Expired {
		return
	}
	_, _ = b.client.Txn(ctx).
		If(h.unchanged(b, name)...).
		Then(b.write(name, ledger.End(h.changes, token, reason, time.Now()))...).
		Commit()
}
