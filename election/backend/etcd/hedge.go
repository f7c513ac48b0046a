package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

const (
	// copiesMax is how many copies of one request may be on their way at the same time, and
	// extraMax how many additional copies of all requests: if a cluster is slow for all, it
	// must not get three times as many requests.
	copiesMax = 3
	extraMax  = 64
	// patienceMin and patienceMax bound how long to wait for one server before another one
	// is asked: an eighth of the lease.
	patienceMin = 100 * time.Millisecond
	patienceMax = time.Second
)

// errAnswered ends the other copies of a request once it has an answer; errClosed ends the
// requests of a client that was closed.
var (
	errAnswered = errors.New("another server has answered")
	errClosed   = errors.New("the client of etcd was closed")
)

// hedged makes a request, and makes it again while there is no answer: etcd's client sends
// each copy to the next of its servers, so a silent server does not matter while the others
// answer (etcd-D8). The first answer counts, and the request may be carried out more than
// once. It ends when the client is closed; etcd's client would go on trying for some time.
func hedged[T any](ctx context.Context, s *store, patience time.Duration, request func(context.Context) (T, error)) (value T, err error) {
	type answer struct {
		value T
		err   error
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(errAnswered)
	defer context.AfterFunc(s.client.Ctx(), func() { end(errClosed) })()
	answers := make(chan answer, copiesMax)
	again := time.NewTicker(patience)
	defer again.Stop()
	for sent, open := 0, 0; ; {
		first := sent == 0
		if first || sent < copiesMax && s.extra.take() {
			sent++
			open++
			go func() {
				if !first {
					defer s.extra.free()
				}
				value, err := request(ctx)
				answers <- answer{value, err}
			}()
		}
		select {
		case <-again.C:
			continue
		case one := <-answers:
			value, err = one.value, one.err
			open--
		}
		for ; err != nil && !decided(err) && open > 0; open-- {
			one := <-answers
			value, err = one.value, one.err
		}
		return value, err
	}
}

// slots bound how many things happen at the same time.
type slots chan struct{}

// take takes a slot if one is free.
func (s slots) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) free() { <-s }

// decided reports whether the error is the cluster's decision, and not the failure of one
// server to answer.
func decided(err error) bool {
	var answered rpctypes.EtcdError
	return errors.As(err, &answered) && answered.Code() != codes.Unavailable
}

// patience is how long this claim waits for an answer before it asks another server too.
func (e *entry) patience() time.Duration { return min(max(e.claim.Lease/8, patienceMin), patienceMax) }

// txn is a transaction of a claim.
type txn struct {
	entry        *entry
	ctx          context.Context
	conditions   []clientv3.Cmp
	then, orElse []clientv3.Op
}

// txn begins a transaction that may be carried out more than once without harm.
func (e *entry) txn(ctx context.Context, conditions ...clientv3.Cmp) *txn {
	return &txn{entry: e, ctx: ctx, conditions: conditions}
}

// Then sets the operations to carry out if the conditions hold.
func (t *txn) Then(ops ...clientv3.Op) *txn {
	t.then = ops
	return t
}

// Else sets the operations to carry out if they do not hold.
func (t *txn) Else(ops ...clientv3.Op) *txn {
	t.orElse = ops
	return t
}

// Commit carries out the transaction.
func (t *txn) Commit() (*clientv3.TxnResponse, error) {
	return hedged(t.ctx, t.entry.store, t.entry.patience(), func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return t.entry.client.Txn(ctx).If(t.conditions...).Then(t.then...).Else(t.orElse...).Commit()
	})
}
