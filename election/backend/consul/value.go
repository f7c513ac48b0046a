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

// ticket is the value of a waiter's key.
type ticket struct {
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

// decodeTicket reads a pair. A damaged value has no id.
func decodeTicket(pair *api.KVPair) (t ticket) {
	_ = json.Unmarshal(pair.Value, &t)
	t.key, t.session, t.modified = pair.Key, pair.Session, pair.ModifyIndex
	return t
}

// change writes the ticket if it has not been written since.
func (t ticket) change() *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVCAS, Key: t.key, Value: queue.Encode(t), Index: t.modified}
}

// nomination is that which stands in the ticket.
func (t ticket) nomination() queue.Nomination {
	return queue.Nomination{Round: t.Round, State: t.State, Error: t.Error, Version: t.modified}
}

// line returns the tickets in the order in which they came.
func line(pairs []*api.KVPair) []ticket {
	pairs = slices.SortedFunc(slices.Values(pairs), func(a, b *api.KVPair) int {
		return int(int64(a.CreateIndex) - int64(b.CreateIndex))
	})
	tickets := make([]ticket, len(pairs))
	for i, pair := range pairs {
		tickets[i] = decodeTicket(pair)
	}
	return tickets
}

// candidates returns the waiters after the tickets.
func (k keys) candidates(name string, tickets []ticket) (waiters []queue.Candidate) {
	for _, t := range tickets {
		waiters = append(waiters, queue.Candidate{ID: t.ID, Priority: k.priorityOf(name, t.key), Key: t.key, Owner: t.session})
	}
	return waiters
}

// scene is what candidates see: the lock, the tickets, and where the own one is,
// -1 for nowhere.
type scene struct {
	lock *api.KVPair
	line []ticket
	at   int
}

// find returns where a ticket is, -1 for nowhere.
func (n scene) find(key string) int {
	return slices.IndexFunc(n.line, func(t ticket) bool { return t.key == key })
}
