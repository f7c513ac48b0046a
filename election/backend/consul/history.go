package consul

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
)

// history is that of an election as it was at an index of its key, zero for
// none at all. Only leaders write it.
type history struct {
	changes []election.Change
	index   uint64
}

// historyTries is how often the history is written against others.
const historyTries = 3

// decodeHistory reads the history's key. A damaged history is begun anew: it is
// for people only.
func decodeHistory(pair *api.KVPair) history {
	h := history{index: pair.ModifyIndex}
	_ = json.Unmarshal(pair.Value, &h.changes)
	return h
}

func (b *Backend) readHistory(ctx context.Context, name string) (history, error) {
	results, _, err := b.consult(ctx, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: b.historyKey(name)})
	if err != nil {
		return history{}, err
	}
	return decodeHistory(results[0]), nil
}

// write puts the history if it is still that of the index.
func (b *Backend) write(name string, index uint64, changes []election.Change) *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVCAS, Key: b.historyKey(name), Value: encode(changes), Index: index}
}
