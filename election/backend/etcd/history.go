package etcd

import (
	"context"
	"encoding/json"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
)

// history is that of an election as it was at a revision of its key, zero for
// none at all. Only leaders write it.
type history struct {
	changes  []election.Change
	revision int64
}

// historyTries is how often the history is written against others.
const historyTries = 3

// decodeHistory reads the history's key. A damaged history is begun anew: it is
// for people only.
func decodeHistory(kvs []*mvccpb.KeyValue) history {
	if len(kvs) == 0 {
		return history{}
	}
	h := history{revision: kvs[0].ModRevision}
	_ = json.Unmarshal(kvs[0].Value, &h.changes)
	return h
}

func (b *Backend) readHistory(ctx context.Context, name string) (history, error) {
	answer, err := b.client.Get(ctx, b.historyKey(name))
	if err != nil {
		return history{}, err
	}
	return decodeHistory(answer.Kvs), nil
}

// unchanged is true while nobody has written the history since.
func (h history) unchanged(b *Backend, name string) []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(b.historyKey(name)), "=", h.revision)}
}

// write puts the history.
func (b *Backend) write(name string, changes []election.Change) []clientv3.Op {
	text, err := json.Marshal(changes)
	if err != nil {
		return nil // plain strings and times: cannot be
	}
	return []clientv3.Op{clientv3.OpPut(b.historyKey(name), string(text))}
}
