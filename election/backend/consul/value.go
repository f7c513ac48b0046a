package consul

import (
	"cmp"
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

// decodeHolder decodes a holder; it returns false for the value of another program.
func decodeHolder(value []byte) (h holder, ours bool) {
	return h, json.Unmarshal(value, &h) == nil && h.ID != ""
}

// newHolder returns the value with which a candidate locks the key.
func newHolder(id string) []byte { return queue.Encode(holder{ID: id, Since: time.Now().UTC()}) }

// waiter is the value of a waiter's key.
type waiter struct {
	ID string `json:"id"`
	// Round is set by a holder that nominates the waiter; no two nominations have the same
	// Round. State is the waiter's answer.
	Round string      `json:"round,omitempty"`
	State queue.State `json:"state,omitempty"`
	Error string      `json:"error,omitempty"`

	key      string
	session  string
	modified uint64
}

// decodeWaiter decodes a waiter from a pair. A damaged value gives an empty id.
func decodeWaiter(pair *api.KVPair) (t waiter) {
	_ = json.Unmarshal(pair.Value, &t)
	t.key, t.session, t.modified = pair.Key, pair.Session, pair.ModifyIndex
	return t
}

// change returns the operation that writes the value unless it has been written since.
func (t waiter) change() *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVCAS, Key: t.key, Value: queue.Encode(t), Index: t.modified}
}

// watched returns the waiter's key as it was read.
func (t waiter) watched() watched { return watched{key: t.key, index: t.modified} }

// nomination returns the nomination in the value.
func (t waiter) nomination() queue.Nomination {
	return queue.Nomination{Round: t.Round, State: t.State, Error: t.Error, Version: t.modified}
}

// inOrder returns the waiters in the order of their arrival. It ignores a key without a
// session: it was restored from a copy, and nothing would ever remove it.
func inOrder(pairs []*api.KVPair) (waiters []waiter) {
	pairs = slices.SortedFunc(slices.Values(pairs), func(a, b *api.KVPair) int {
		return cmp.Compare(a.CreateIndex, b.CreateIndex)
	})
	for _, pair := range pairs {
		if pair.Session != "" {
			waiters = append(waiters, decodeWaiter(pair))
		}
	}
	return waiters
}

// candidates converts the waiters to candidates of package queue.
func (k keys) candidates(name string, waiters []waiter) (all []queue.Candidate) {
	for _, t := range waiters {
		all = append(all, queue.Candidate{ID: t.ID, Priority: k.priorityOf(name, t.key), Key: t.key, Owner: t.session})
	}
	return all
}

// scene is what a candidate has read: the lock, the waiters, and its own index among them
// (-1 for none).
type scene struct {
	lock    *api.KVPair
	waiters []waiter
	at      int
}

// find returns the index of the waiter with this key, -1 for none.
func (n scene) find(key string) int {
	return slices.IndexFunc(n.waiters, func(t waiter) bool { return t.key == key })
}
