package consul

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election/queue"
)

// holder is the value of a lock that one of our candidates holds.
type holder struct {
	ID    string    `json:"leader"`
	Since time.Time `json:"since"`
}

// decodeHolder returns false for the value of another program.
func decodeHolder(value []byte) (h holder, ours bool) {
	return h, json.Unmarshal(value, &h) == nil && h.ID != ""
}

// newHolder is the value with which a candidate locks the key.
func newHolder(id string) []byte { return queue.Encode(holder{ID: id, Since: time.Now().UTC()}) }

// waiter is the value of a waiter's key.
type waiter struct {
	ID string `json:"id"`
	// Round is set by a holder that nominates the waiter, and differs between
	// any two nominations. State is what the waiter says to it.
	Round string      `json:"round,omitempty"`
	State queue.State `json:"state,omitempty"`
	Error string      `json:"error,omitempty"`

	key      string
	session  string
	modified uint64
}

// decodeWaiter reads a pair. A damaged value has no id.
func decodeWaiter(pair *api.KVPair) (t waiter) {
	_ = json.Unmarshal(pair.Value, &t)
	t.key, t.session, t.modified = pair.Key, pair.Session, pair.ModifyIndex
	return t
}

// change writes the value if it has not been written since.
func (t waiter) change() *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVCAS, Key: t.key, Value: queue.Encode(t), Index: t.modified}
}

// nomination is that which stands in the value.
func (t waiter) nomination() queue.Nomination {
	return queue.Nomination{Round: t.Round, State: t.State, Error: t.Error, Version: t.modified}
}

// inOrder returns the waiters in the order in which they came. A key without a session is
// no waiter's: it was put back from a copy, and nothing would ever remove it.
func inOrder(pairs []*api.KVPair) (waiters []waiter) {
	pairs = slices.SortedFunc(slices.Values(pairs), func(a, b *api.KVPair) int {
		return int(int64(a.CreateIndex) - int64(b.CreateIndex))
	})
	for _, pair := range pairs {
		if pair.Session != "" {
			waiters = append(waiters, decodeWaiter(pair))
		}
	}
	return waiters
}

// candidates returns the waiters as the queue knows them.
func (k keys) candidates(name string, waiters []waiter) (all []queue.Candidate) {
	for _, t := range waiters {
		all = append(all, queue.Candidate{ID: t.ID, Priority: k.priorityOf(name, t.key), Key: t.key, Owner: t.session})
	}
	return all
}

// scene is what candidates see: the lock, the waiters, and where the own one is,
// -1 for nowhere.
type scene struct {
	lock    *api.KVPair
	waiters []waiter
	at      int
}

// find returns where a waiter is, -1 for nowhere.
func (n scene) find(key string) int {
	return slices.IndexFunc(n.waiters, func(t waiter) bool { return t.key == key })
}
