package etcd

import (
	"context"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// scripted is a cluster that answers its transactions from a list, in order.
type scripted struct {
	clientv3.KV
	clientv3.Watcher
	answers []*clientv3.TxnResponse
	asked   [][]clientv3.Op // what each transaction read
}

func (s *scripted) Txn(context.Context) clientv3.Txn { return &scriptedTxn{of: s} }

// Watch never reports anything.
func (s *scripted) Watch(context.Context, string, ...clientv3.OpOption) clientv3.WatchChan {
	return make(clientv3.WatchChan)
}

type scriptedTxn struct {
	of    *scripted
	reads []clientv3.Op
}

func (t *scriptedTxn) If(...clientv3.Cmp) clientv3.Txn { return t }
func (t *scriptedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.reads = ops
	return t
}
func (t *scriptedTxn) Else(...clientv3.Op) clientv3.Txn { return t }
func (t *scriptedTxn) Commit() (*clientv3.TxnResponse, error) {
	t.of.asked = append(t.of.asked, t.reads)
	answer := t.of.answers[0]
	t.of.answers = t.of.answers[1:]
	return answer, nil
}

// answered is a transaction whose reads have found these keys.
func answered(succeeded bool, found ...[]*mvccpb.KeyValue) *clientv3.TxnResponse {
	answer := &clientv3.TxnResponse{Header: &pb.ResponseHeader{Revision: 10}, Succeeded: succeeded}
	for _, kvs := range found {
		answer.Responses = append(answer.Responses, &pb.ResponseOp{
			Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Kvs: kvs}}})
	}
	return answer
}

// TestPlaceOfAWaiterThatIsKnownAsksForNoQueue: servers sort all keys of a queue to find
// the one before a given key. With ten thousand waiters they would do nothing else.
func TestPlaceOfAWaiterThatIsKnownAsksForNoQueue(t *testing.T) {
	before := []*mvccpb.KeyValue{{Key: []byte("jobs/5"), CreateRevision: 5}}
	older := []*mvccpb.KeyValue{{Key: []byte("jobs/4"), CreateRevision: 4}}
	cluster := &scripted{answers: []*clientv3.TxnResponse{
		answered(true, before, nil), // the first look
		answered(true, nil),         // the one before is still there
		answered(false),             // it has gone, and no event has said so
		answered(true, older, nil),
		answered(true, nil),
		answered(false), // it has gone, too
		answered(true, nil, nil),
	}}
	client := clientv3.NewCtxClient(t.Context())
	client.KV, client.Watcher = cluster, cluster
	s := newStore(client, Options{})
	e, _ := s.Entry(t.Context(), election.Claim{Election: "jobs", Nonce: "n", Lease: time.Minute}).(*entry)
	e.created.Store(7)
	for n, want := range []queue.Standing{queue.Queued, queue.Queued, queue.Queued, queue.Queued, queue.Head} {
		place, err := e.Place(t.Context())
		if err != nil || place.Standing != want {
			t.Fatalf("look %d: standing %d, %v", n, place.Standing, err)
		}
	}
	var ranges []bool
	for _, reads := range cluster.asked {
		ranges = append(ranges, slices.ContainsFunc(reads, func(op clientv3.Op) bool { return len(op.RangeBytes()) > 0 }))
	}
	if want := []bool{true, false, false, true, false, false, true}; !slices.Equal(ranges, want) {
		t.Errorf("transactions with a range of the queue: %v, not %v", ranges, want)
	}
}
