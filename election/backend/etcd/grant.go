package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/ledger"
)

// takeUp proves that the claim leads, nobody being before it, and writes it
// into the history in the same transaction.
func (b *Backend) takeUp(ctx context.Context, s *seat) (election.Grant, error) {
	grant := election.Grant{Claim: s.claim, Token: election.Token(s.revision()), Lost: s.lost, News: s.signs}
	var err error
	if grant.Sent, grant.Lease, err = b.keepAlive(ctx, s); err != nil {
		return grant, err
	}
	name := s.claim.Election
	for range historyTries {
		var old history
		if old, err = b.readHistory(ctx, name); err != nil {
			return grant, err
		}
		next := history{changes: ledger.Begin(old.changes, s.claim.ID, grant.Token, time.Now())}
		var proved election.Grant
		proved, next.revision, err = b.prove(ctx, s, grant, old.unchanged(b, name), b.write(name, next.changes))
		if err == nil {
			s.setGranted(next)
			return proved, nil
		}
		if !errors.Is(err, errHistoryMoved) {
			break
		}
	}
	if errors.Is(err, errHistoryMoved) || errors.Is(err, rpctypes.ErrNoSpace) {
		// Nobody is kept from leading because the history cannot be written.
		if grant, _, err = b.prove(ctx, s, grant, nil, nil); err == nil {
			s.setGranted(history{})
		}
	}
	return grant, err
}

// Renew keeps the lease alive and proves that the key is there.
func (b *Backend) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	err := fmt.Errorf("%w: it was released", election.ErrLost)
	if s := b.seat(grant.Claim.Nonce); s != nil {
		if granted, _ := s.isGranted(); granted {
			grant, err = b.renew(ctx, s, grant)
		}
	}
	if err != nil {
		return grant, fmt.Errorf("etcd: renew in election %q: %w", grant.Claim.Election, mark(err))
	}
	return grant, nil
}

func (b *Backend) renew(ctx context.Context, s *seat, grant election.Grant) (election.Grant, error) {
	var err error
	if grant.Sent, grant.Lease, err = b.keepAlive(ctx, s); err != nil {
		return grant, err
	}
	grant, _, err = b.prove(ctx, s, grant, nil, nil)
	return grant, err
}

// errHistoryMoved says that somebody else has written the history meanwhile.
var errHistoryMoved = errors.New("the history was written by somebody else")

// prove has a quorum decide a transaction that fails without the candidate's
// key (D3), under further conditions and with further writes. It fills in what
// the leader should know, and returns the revision of the writes.
func (b *Backend) prove(ctx context.Context, s *seat, grant election.Grant, also []clientv3.Cmp, put []clientv3.Op,
) (election.Grant, int64, error) {
	name := s.claim.Election
	then := append([]clientv3.Op{clientv3.OpGet(b.requestKey(name)),
		clientv3.OpGet(b.lineKeys(name), clientv3.WithPrefix(), clientv3.WithLimit(1),
			clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend))}, put...)
	answer, err := b.client.Txn(ctx).
		If(append(also, s.mine())...).
		Then(then...).
		Else(clientv3.OpGet(s.key, clientv3.WithKeysOnly())).
		Commit()
	if err != nil {
		return grant, 0, err
	}
	if !answer.Succeeded {
		there := answer.Responses[0].GetResponseRange().Kvs
		if len(there) == 1 && there[0].CreateRevision == s.revision() {
			return grant, 0, errHistoryMoved
		}
		return grant, 0, errNoKey
	}
	grant.Request, grant.Rival = nil, ""
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		var request election.Request
		if json.Unmarshal(kv.Value, &request) == nil && request.Token == grant.Token {
			grant.Request = &request
		}
	}
	for _, kv := range answer.Responses[1].GetResponseRange().Kvs {
		if priority, id := parseLine(string(kv.Value)); priority > s.claim.Priority {
			grant.Rival = b.rival(ctx, s, string(kv.Key), id)
		}
	}
	return grant, answer.Header.Revision, nil
}

// rival returns the id of the candidate in line with this side key if it could
// be nominated, and empty if not or if that cannot be found out now.
func (b *Backend) rival(ctx context.Context, s *seat, side, id string) string {
	line, err := b.members(ctx, s.claim.Election)
	if err != nil {
		return ""
	}
	for i, m := range line {
		if m.side == side && m.created > s.revision() && onlyOurs(after(line[:i], s.revision())) {
			return id
		}
	}
	return ""
}
