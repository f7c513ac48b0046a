package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
)

// Acquire joins the queue and waits until all before it have gone.
func (b *Backend) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	s, err := b.add(claim)
	if err != nil {
		return election.Grant{}, fmt.Errorf("etcd: join election %q: %w", claim.Election, err)
	}
	ctx, cancel := s.bind(ctx)
	defer cancel()
	sent := election.Now()
	ttl, err := b.join(ctx, s)
	if err != nil {
		return election.Grant{}, fmt.Errorf("etcd: join election %q: %w", claim.Election, mark(err))
	}
	b.group.Go(func() { b.guard(s, s.revision()+1) })
	w := &waiter{backend: b, seat: s, ttl: ttl, kept: sent}
	defer w.end()
	grant, err := w.awaitTurn(ctx)
	if err != nil {
		return election.Grant{}, fmt.Errorf("etcd: wait in election %q: %w", claim.Election, mark(err))
	}
	return grant, nil
}

// join makes the claim's lease and its key, and returns for how long the lease
// holds: whole seconds, not less than what the servers allow.
func (b *Backend) join(ctx context.Context, s *seat) (time.Duration, error) {
	seconds := int64((s.claim.Lease + time.Second - 1) / time.Second)
	leases := clientv3.RetryLeaseClient(b.client) // the client's own Grant leaves the number to the server
	granted, err := leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: seconds, ID: int64(s.lease)})
	if err = rpctypes.Error(err); err != nil && !errors.Is(err, rpctypes.ErrLeaseExist) {
		return 0, err
	}
	if err == nil {
		seconds = granted.TTL
	}
	return time.Duration(seconds) * time.Second, b.enter(ctx, s)
}

// enter puts the candidate's key at the end of the line. To repeat it does no
// harm: a key that is there stays where it is.
func (b *Backend) enter(ctx context.Context, s *seat) error {
	name := s.claim.Election
	answer, err := b.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(s.key), "=", 0)).
		Then(clientv3.OpPut(s.key, s.claim.ID, clientv3.WithLease(s.lease)),
			clientv3.OpPut(b.line(name, s.key), lineValue(s.claim.Priority, s.claim.ID), clientv3.WithLease(s.lease))).
		Else(clientv3.OpGet(s.key, clientv3.WithKeysOnly())).
		Commit()
	if err != nil {
		return err
	}
	created := answer.Header.Revision
	if !answer.Succeeded {
		created = answer.Responses[0].GetResponseRange().Kvs[0].CreateRevision
	}
	s.setRevision(created)
	return nil
}

// errNoKey says that the candidate's key is not there, or is another one.
var errNoKey = fmt.Errorf("%w: this candidate's key is gone", election.ErrLost)

// mine is true while the candidate's key is the one that it put.
func (s *seat) mine() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(s.key), "=", s.revision())
}

// waiter is one Acquire in line. One goroutine owns it.
type waiter struct {
	backend *Backend
	seat    *seat
	ttl     time.Duration
	kept    election.Instant // when the last good keep-alive was sent
	before  watched          // the predecessor
	warming warming
}

// place is what a waiter sees.
type place struct {
	revision   int64  // of the store when it was looked at
	before     string // key of the predecessor, empty for none
	nomination nomination
}

// awaitTurn returns when the claim leads, and when it cannot stay in line.
// While the servers cannot be asked it stays for a lease: they may keep it.
func (w *waiter) awaitTurn(ctx context.Context) (election.Grant, error) {
	good := election.Now()
	for {
		p, err := w.look(ctx)
		if err == nil && p.before == "" {
			w.warming.finish(w.ttl / 4)
			var grant election.Grant
			if grant, err = w.backend.takeUp(ctx, w.seat); err == nil {
				return grant, nil
			}
		}
		switch {
		case ctx.Err() != nil:
			return election.Grant{}, context.Cause(ctx)
		case err == nil:
			good = election.Now()
			w.warm(ctx, p.nomination)
			w.await(ctx, p)
		case final(err) || election.Now().Sub(good) > w.ttl:
			return election.Grant{}, err
		default:
			sleep(ctx, watchPause)
		}
	}
}

// final says whether trying again is of no use to this claim.
func final(err error) bool {
	err = mark(err)
	return errors.Is(err, election.ErrLost) || errors.Is(err, election.ErrPermanent)
}

// look keeps the lease alive if it is time, and finds the candidate's place. A
// key that was deleted while the lease lives is put again, at the end: the
// holder sends those to the end of the line who are before its nominee.
func (w *waiter) look(ctx context.Context) (place, error) {
	ctx, cancel := context.WithTimeout(ctx, w.ttl/2)
	defer cancel()
	if election.Now() >= w.due() {
		sent, ttl, err := w.backend.keepAlive(ctx, w.seat)
		if err != nil {
			return place{}, err
		}
		w.kept, w.ttl = sent, ttl
	}
	p, err := w.backend.find(ctx, w.seat)
	if !errors.Is(err, errNoKey) {
		return p, err
	}
	if err := w.backend.enter(ctx, w.seat); err != nil {
		return place{}, err
	}
	return w.backend.find(ctx, w.seat)
}

func (w *waiter) due() election.Instant { return w.kept.Add(w.ttl / 3) }

// await returns when there is a reason to look again.
func (w *waiter) await(ctx context.Context, p place) {
	w.before.set(w.backend.client, p)
	timer := time.NewTimer(max(0, w.due().Sub(election.Now())))
	defer timer.Stop()
	select {
	case response, open := <-w.before.events:
		w.before.stop()
		if !open || response.Err() != nil {
			sleep(ctx, watchPause)
		}
	case <-w.seat.signs:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (w *waiter) end() {
	w.before.stop()
	w.warming.stop()
}

// watched is a key whose end is awaited. It outlives the looks between.
type watched struct {
	key    string
	events clientv3.WatchChan
	cancel context.CancelFunc
}

func (k *watched) set(client *clientv3.Client, p place) {
	if k.key == p.before {
		return
	}
	k.stop()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	k.key, k.cancel = p.before, cancel
	k.events = client.Watch(ctx, p.before, clientv3.WithRev(p.revision+1), clientv3.WithFilterPut())
}

func (k *watched) stop() {
	if k.cancel != nil {
		k.cancel()
	}
	*k = watched{}
}

// find has a quorum confirm the candidate's key and tell who is before it.
func (b *Backend) find(ctx context.Context, s *seat) (place, error) {
	name := s.claim.Election
	answer, err := b.client.Txn(ctx).
		If(s.mine()).
		Then(b.opBefore(name, s.revision(), 1), clientv3.OpGet(b.nominationKey(name))).
		Commit()
	if err != nil {
		return place{}, err
	}
	if !answer.Succeeded {
		return place{}, errNoKey
	}
	p := place{revision: answer.Header.Revision,
		nomination: decodeNomination(answer.Responses[1].GetResponseRange().Kvs)}
	before := answer.Responses[0].GetResponseRange().Kvs
	if len(before) > 0 && !b.isCandidate(name, string(before[0].Key)) {
		// A candidate of another election, such as "a/b/17" beside "a/16": get all.
		all, err := b.client.Do(ctx, b.opBefore(name, s.revision(), 0))
		if err != nil {
			return place{}, err
		}
		before = all.Get().Kvs
	}
	for _, kv := range before {
		if b.isCandidate(name, string(kv.Key)) {
			p.before = string(kv.Key)
			break
		}
	}
	return p, nil
}

// opBefore reads the keys before a revision, the latest first, at most so many.
func (b *Backend) opBefore(name string, created, limit int64) clientv3.Op {
	from, end := b.queue(name)
	return clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithMaxCreateRev(created-1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(limit),
		clientv3.WithKeysOnly())
}

// keepAlive extends the lease. It returns the instant before it asked, from
// which on the lease holds for the time beside it (D5).
func (b *Backend) keepAlive(ctx context.Context, s *seat) (election.Instant, time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	sent := election.Now()
	// The client's own KeepAliveOnce tries again without a pause for as long
	// as there is no server.
	stream, err := clientv3.RetryLeaseClient(b.client).LeaseKeepAlive(ctx)
	if err == nil {
		err = stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(s.lease)})
	}
	if err != nil {
		return 0, 0, rpctypes.Error(err)
	}
	answer, err := stream.Recv()
	switch {
	case err != nil:
		return 0, 0, rpctypes.Error(err)
	case answer.TTL <= 0:
		return 0, 0, rpctypes.ErrLeaseNotFound
	}
	return sent, time.Duration(answer.TTL) * time.Second, nil
}
