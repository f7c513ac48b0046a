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

// entry is a candidate's key.
type entry struct {
	*store
	claim       election.Claim
	life        context.Context
	lease       clientv3.LeaseID
	key         string
	created     atomic.Int64 // create revision of the key, zero while unknown
	own, before watch        // of the waiter, then of Guard
	ahead       int64        // create revision of the key that before watches
	watched     int64        // up to which revision Guard has seen all
	quiet       bool         // the latest Wait has ended at its limit
}

// Entry returns the key of a claim.
func (s *store) Entry(life context.Context, claim election.Claim) queue.Entry {
	lease := leaseID(claim.Nonce)
	return &entry{store: s, claim: claim, life: life, lease: lease, key: s.keys.candidate(claim.Election, lease)}
}

// mine is true while the key is the one that this candidate put.
func (e *entry) mine() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.created.Load())
}

// answerLimit is how long a server may take to answer what a claim begins with, if the lease is
// not shorter. A client without DialKeepAliveTime would wait for a server that has gone in silence
// as long as TCP does.
const answerLimit = 5 * time.Second

func (e *entry) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, min(answerLimit, e.claim.Lease))
	stop := context.AfterFunc(e.client.Ctx(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// Create makes the lease, of whole seconds, and not less than what the servers
// allow.
func (e *entry) Create(ctx context.Context) (queue.Lease, error) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	seconds, sent := int64((e.claim.Lease+time.Second-1)/time.Second), e.now()
	// Once (etcd-D8): a second request that comes after the lease was revoked would make it again, for
	// keys that are still on their way.
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
	e.before.stop() // at the end there is another one before it
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

// Place has a quorum confirm the key and tell who is before it. While the one that
// was before it stands, it is: keys come at the end alone. To find it the servers sort
// all keys of the queue. If the latest key before it is of another election, such as
// "a/b/17" beside "a/16", all are read.
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

// nominated is what a nomination says to this candidate.
func (e *entry) nominated(found []*mvccpb.KeyValue) queue.Nomination {
	if n := decodeNomination(found); n.Nominee == e.key {
		return n.shown()
	}
	return queue.Nomination{}
}

// search finds who is before the key, and watches it.
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

// opBefore reads the keys before the own one, the latest first, at most so many.
func (e *entry) opBefore(limit int64) clientv3.Op {
	from, end := e.keys.queue(e.claim.Election)
	return clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithMaxCreateRev(e.created.Load()-1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(limit), clientv3.WithKeysOnly())
}

// Prove has a quorum decide a transaction that fails without the key (etcd-D3).
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
			waiters, _ := e.waiters(ctx) // the next renewal tries again
			rival, _ := queue.Rival(waiters, e.claim.Priority)
			proof.Rival = rival.ID
		}
	}
	return proof, nil
}

// decide has a quorum carry out operations if the key is there, and the history
// that is written beside, if any, is as it was.
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

// Leave deletes the key. The successor is next (etcd-D6).
func (e *entry) Leave(ctx context.Context, history *queue.History, _ *queue.Candidate) error {
	_, err := e.decide(ctx, history, clientv3.OpDelete(e.key))
	return err
}

// Revoke revokes the lease, which takes away whatever there is of the claim
// (etcd-D4).
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

// Note puts the history.
func (e *entry) Note(ctx context.Context, h queue.History) error {
	_, err := e.txn(ctx, e.unchanged(h)).Then(e.put(h)).Commit()
	return err
}

// unchanged is true while nobody has written the history since.
func (e *entry) unchanged(h queue.History) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(e.keys.history(e.claim.Election)), "=", int64(h.Version))
}

func (e *entry) put(h queue.History) clientv3.Op {
	return clientv3.OpPut(e.keys.history(e.claim.Election), string(queue.Encode(h.Tenures)))
}
