package etcd

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// entry is a candidate with its key.
type entry struct {
	*store
	claim       election.Claim
	life        context.Context
	lease       clientv3.LeaseID
	key         string
	created     atomic.Int64 // create revision of the key; zero while unknown
	own, before watch        // used while waiting, then by Guard
	ahead       int64        // create revision of the key that before watches
	watched     int64        // revision up to which Guard has seen all events
	quiet       bool         // the last Wait has ended at its limit
}

// Entry returns the candidate of a claim.
func (s *store) Entry(life context.Context, claim election.Claim) queue.Entry {
	lease := leaseID(claim.Nonce)
	return &entry{store: s, claim: claim, life: life, lease: lease, key: s.keys.candidate(claim.Election, lease)}
}

// mine is the condition that the key is still the one that this candidate has put.
func (e *entry) mine() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.created.Load())
}

// answerLimit is how long a server may take to answer a claim's first requests, unless the
// lease is longer. Without DialKeepAliveTime, a client would wait for a silent server as
// long as TCP does.
const answerLimit = 5 * time.Second

func (e *entry) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, min(answerLimit, e.claim.Lease))
	stop := context.AfterFunc(e.client.Ctx(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// Create creates the lease: a whole number of seconds, and at least what the servers allow.
func (e *entry) Create(ctx context.Context) (queue.Lease, error) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	seconds, sent := int64((e.claim.Lease+time.Second-1)/time.Second), e.now()
	// Send this only once (etcd-D8): a second request that arrives after the lease was
	// revoked would create it again, and keys that are still on their way could be attached
	// to it.
	granted, err := e.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: seconds, ID: int64(e.lease)})
	if err = rpctypes.Error(err); err != nil && !errors.Is(err, rpctypes.ErrLeaseExist) {
		return queue.Lease{}, err
	}
	if err == nil {
		seconds = granted.TTL
	}
	return queue.Lease{Sent: sent, Length: time.Duration(seconds) * time.Second}, nil
}

// Enter puts the key at the end of the queue.
func (e *entry) Enter(ctx context.Context) error {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	e.before.stop() // its predecessor is now another one
	side := clientv3.OpPut(e.keys.side(e.claim.Election, e.key), sideValue(e.claim.Priority, e.claim.ID), clientv3.WithLease(e.lease))
	puts := []clientv3.Op{clientv3.OpPut(e.key, e.claim.ID, clientv3.WithLease(e.lease)), side}
	if len(e.claim.Metadata) > 0 {
		key := e.keys.metadata(e.claim.Election, e.key)
		puts = append(puts, clientv3.OpPut(key, string(e.claim.Metadata), clientv3.WithLease(e.lease)))
	}
	answer, err := e.txn(ctx, clientv3.Compare(clientv3.CreateRevision(e.key), "=", 0)).
		Then(puts...).
		Else(clientv3.OpGet(e.key, clientv3.WithKeysOnly())).
		Commit()
	if err != nil {
		return err
	}
	created := answer.Header.Revision
	if !answer.Succeeded {
		created = kvs(answer, 0)[0].CreateRevision
	}
	e.created.Store(created)
	return nil
}

// Renew extends the lease (etcd-D5).
func (e *entry) Renew(ctx context.Context) (queue.Lease, error) {
	return hedged(ctx, e.store, e.patience(), func(ctx context.Context) (queue.Lease, error) {
		return e.keepAlives.renew(ctx, int64(e.lease))
	})
}

// Place has a quorum confirm the key and find its predecessor. A known predecessor stays
// the predecessor as long as its key exists, because new keys are put at the end. To find
// one, the servers sort all keys of the queue. If the latest key before this one belongs to
// another election, such as "a/b/17" beside "a/16", all keys are read.
func (e *entry) Place(ctx context.Context) (queue.Place, error) {
	if e.before.key != "" {
		stands := clientv3.Compare(clientv3.CreateRevision(e.before.key), "=", e.ahead)
		answer, err := e.txn(ctx, e.mine(), stands).Then(clientv3.OpGet(e.keys.nomination(e.claim.Election))).Commit()
		switch {
		case err != nil:
			return queue.Place{}, err
		case answer.Succeeded:
			e.own.follow(e.life, e.client, e.key, answer.Header.Revision+1)
			return queue.Place{Standing: queue.Queued, Nomination: e.nominated(kvs(answer, 0))}, nil
		}
	}
	return e.search(ctx)
}

// nominated returns what a nomination means for this candidate.
func (e *entry) nominated(found []*mvccpb.KeyValue) queue.Nomination {
	if n := decodeNomination(found); n.Nominee == e.key {
		return n.shown()
	}
	return queue.Nomination{}
}

// search finds the predecessor's key and watches it.
func (e *entry) search(ctx context.Context) (queue.Place, error) {
	name, before, ahead := e.claim.Election, "", int64(0)
	var answer *clientv3.TxnResponse
	for _, limit := range []int64{1, 0} {
		var err error
		answer, err = e.txn(ctx, e.mine()).Then(e.opBefore(limit), clientv3.OpGet(e.keys.nomination(name))).Commit()
		if err != nil || !answer.Succeeded {
			return queue.Place{Standing: queue.Gone}, err
		}
		found := kvs(answer, 0)
		at := slices.IndexFunc(found, func(kv *mvccpb.KeyValue) bool { return e.keys.isCandidate(name, string(kv.Key)) })
		if at >= 0 {
			before, ahead = string(found[at].Key), found[at].CreateRevision
		}
		if at >= 0 || len(found) == 0 {
			break
		}
	}
	from := answer.Header.Revision + 1
	e.before.follow(e.life, e.client, before, from, clientv3.WithFilterPut())
	e.ahead = ahead
	e.own.follow(e.life, e.client, e.key, from)
	place := queue.Place{Standing: queue.Queued}
	if before == "" {
		place = queue.Place{Standing: queue.Head, Token: election.Token(e.created.Load())}
	}
	place.Nomination = e.nominated(kvs(answer, 1))
	return place, nil
}

// opBefore reads up to limit keys before this candidate's key, the latest first.
func (e *entry) opBefore(limit int64) clientv3.Op {
	from, end := e.keys.queue(e.claim.Election)
	return clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithMaxCreateRev(e.created.Load()-1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(limit), clientv3.WithKeysOnly())
}

// Prove has a quorum decide a transaction that fails if the key is gone (etcd-D3).
func (e *entry) Prove(ctx context.Context, history *queue.History) (queue.Proof, error) {
	name := e.claim.Election
	answer, err := e.decide(ctx, history, clientv3.OpGet(e.keys.request(name)),
		clientv3.OpGet(e.keys.ours(name), clientv3.WithPrefix(), clientv3.WithLimit(1),
			clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend)))
	if err != nil {
		return queue.Proof{}, err
	}
	proof := queue.Proof{Version: uint64(answer.Header.Revision)}
	for _, kv := range kvs(answer, 0) {
		proof.Request = queue.DecodeRequest(kv.Value)
	}
	for _, kv := range kvs(answer, 1) {
		if priorityOf(kv.Value) > e.claim.Priority {
			waiters, _ := e.waiters(ctx) // an error: the next renewal reads them again
			rival, _ := queue.Rival(waiters, e.claim.Priority)
			proof.Rival = rival.ID
		}
	}
	return proof, nil
}

// decide has a quorum carry out operations if the key exists. If a history is written with
// them, it must not have changed since it was read.
func (e *entry) decide(ctx context.Context, history *queue.History, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	conditions := []clientv3.Cmp{e.mine()}
	if history != nil {
		conditions = append(conditions, e.unchanged(*history))
		ops = append(ops, e.put(*history))
	}
	answer, err := e.txn(ctx, conditions...).Then(ops...).Else(clientv3.OpGet(e.key, clientv3.WithKeysOnly())).Commit()
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace) && history != nil:
		return nil, queue.ErrNoHistory
	case err != nil || answer.Succeeded:
		return answer, err
	}
	there := kvs(answer, 0)
	if len(there) == 1 && there[0].CreateRevision == e.created.Load() {
		return nil, queue.ErrConflict
	}
	return nil, errNoKey
}

// Leave deletes the key; the successor is then the first (etcd-D6).
func (e *entry) Leave(ctx context.Context, history *queue.History, _ *queue.Candidate) error {
	_, err := e.decide(ctx, history, clientv3.OpDelete(e.key))
	return err
}

// Revoke revokes the lease, which removes everything of the claim (etcd-D4).
func (e *entry) Revoke(ctx context.Context) error {
	_, err := hedged(ctx, e.store, e.patience(), func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) {
		return e.client.Revoke(ctx, e.lease)
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// History reads the history's key.
func (e *entry) History(ctx context.Context) (queue.History, error) {
	answer, err := hedged(ctx, e.store, e.patience(), func(ctx context.Context) (*clientv3.GetResponse, error) {
		return e.client.Get(ctx, e.keys.history(e.claim.Election))
	})
	if err != nil {
		return queue.History{}, err
	}
	return decodeHistory(answer.Kvs), nil
}

func decodeHistory(found []*mvccpb.KeyValue) queue.History {
	if len(found) == 0 {
		return queue.History{}
	}
	return queue.DecodeHistory(found[0].Value, uint64(found[0].ModRevision))
}

// Note writes the history.
func (e *entry) Note(ctx context.Context, h queue.History) error {
	_, err := e.txn(ctx, e.unchanged(h)).Then(e.put(h)).Commit()
	return err
}

// unchanged is the condition that nobody has written the history since it was read.
func (e *entry) unchanged(h queue.History) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(e.keys.history(e.claim.Election)), "=", int64(h.Version))
}

func (e *entry) put(h queue.History) clientv3.Op {
	return clientv3.OpPut(e.keys.history(e.claim.Election), string(queue.Encode(h.Tenures)))
}
