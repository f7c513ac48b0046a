package consul

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// store is a queue.Store in one datacenter.
type store struct {
	client  *api.Client
	options Options
	keys    keys
	now     func() clock.Instant
	life    context.Context // ends with close
	end     context.CancelFunc

	asking, polling atomic.Int64 // how many blocking queries are open, and how many waits poll instead
}

// Traits returns what Consul promises.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "consul", LeaseMin: s.options.LeaseMin, Guarantees: election.Guarantees{
		Failover: "none: everything is decided by a quorum; a new leader of Consul restarts all sessions. An " +
			"agent that is a client waits for a server that has frozen until gossip declares that dead, 8 s as " +
			"measured: a lease below 20 s may be lost then. An agent that leaves, as with SIGTERM unless leave_on_terminate is false, ends the sessions of the " +
			"candidates that use it: two lead until the first one's deadline, unless LockDelay is as long as " +
			"the lease",
		Clocks: "rates only, with a whole TTL in reserve: the servers wait twice as long as the candidate; a " +
			"dead leader is replaced after two leases. The shortest lease is 10 s unless the servers' " +
			"session_ttl_min says otherwise",
		Token:   "index of the write that locked the key; goes back if the data is lost or restored into a new cluster",
		Renewal: "one renewal, which is not a write, one quorum read and one list of keys",
		Waiting: "one renewal and one read every third of the lease, one or two blocking queries; " +
			"a hand-over wakes two candidates",
		Notice: "watch",
	}}
}

// answerLimit is how long a server may take to answer. Every request of this package has a
// time limit, because an agent may have gone silently.
const answerLimit = 5 * time.Second

// write makes a request that writes. It repeats the request if crossed says so.
func write(ctx context.Context, request func(*api.WriteOptions) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	err := request((&api.WriteOptions{}).WithContext(ctx))
	if crossed(ctx, err) {
		err = request((&api.WriteOptions{}).WithContext(ctx))
	}
	return err
}

// transact has a quorum decide writes. failed is the index of the operation whose condition
// did not hold, -1 for none.
func (s *store) transact(ctx context.Context, ops ...*api.KVTxnOp) (results []*api.KVPair, failed int, err error) {
	return s.txn(ctx, &api.QueryOptions{}, ops)
}

// consult makes a quorum read.
func (s *store) consult(ctx context.Context, ops ...*api.KVTxnOp) (results []*api.KVPair, failed int, err error) {
	return s.txn(ctx, &api.QueryOptions{RequireConsistent: true}, ops)
}

func (s *store) txn(ctx context.Context, options *api.QueryOptions, ops api.KVTxnOps) ([]*api.KVPair, int, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	done, answer, _, err := s.client.KV().Txn(ops, options.WithContext(ctx))
	if crossed(ctx, err) {
		done, answer, _, err = s.client.KV().Txn(ops, options.WithContext(ctx))
	}
	switch {
	case err != nil:
		return nil, 0, err
	case done:
		return answer.Results, -1, complete(ops, answer.Results)
	case len(answer.Errors) == 0:
		return nil, 0, errors.New("a transaction was rolled back without a reason")
	case strings.Contains(answer.Errors[0].What, denied):
		return nil, 0, errors.New(answer.Errors[0].What)
	}
	return nil, answer.Errors[0].OpIndex, nil
}

// complete returns an error if the result of an operation is missing. Consul omits without
// an error what a token may not read. Before the first list or deletion, each operation has
// one result, except for a check that a key does not exist.
func complete(ops api.KVTxnOps, results []*api.KVPair) error {
	for _, op := range ops {
		switch op.Verb {
		case api.KVGetTree, api.KVDelete:
			return nil
		case api.KVCheckNotExists:
			continue
		}
		if len(results) == 0 || results[0].Key != op.Key {
			return fmt.Errorf("%s: the token may not read the key %q", denied, op.Key)
		}
		results = results[1:]
	}
	return nil
}

// Names returns the elections in which a candidate of this package takes part or has ever
// led. Consul leaves out those whose keys the token may not read. If that may be all of
// them, the read of a key is refused.
func (s *store) Names(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	options := (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	found, _, err := s.client.KV().Keys(s.keys.root(), "/", options)
	if err == nil && len(found) == 0 {
		_, _, err = s.client.KV().Get(s.keys.root(), options)
	}
	var names []string
	for _, key := range found {
		if segment, ours := strings.CutSuffix(strings.TrimPrefix(key, s.keys.root()), "/"); ours {
			names = append(names, unescaper.Replace(segment))
		}
	}
	return names, err
}

// unchanged returns the check that a key still is as it was read (by KVGetOrEmpty).
func unchanged(pair *api.KVPair) *api.KVTxnOp {
	if pair.ModifyIndex == 0 {
		return &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: pair.Key}
	}
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: pair.Key, Index: pair.ModifyIndex}
}

// Ask puts a request, locked by the holder's session, in place of the one that it has read.
// After a leader has stepped down, its session may exist for two more leases and lock the
// request.
func (s *store) Ask(ctx context.Context, name string, holder queue.Holder, request election.Request) error {
	key := s.keys.request(name)
	before, _, err := s.consult(ctx, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key})
	if err != nil {
		return err
	}
	if err := request.Replaces(queue.DecodeRequest(before[0].Value)); err != nil {
		return err
	}
	_, failed, err := s.transact(ctx, unchanged(before[0]), &api.KVTxnOp{Verb: api.KVDelete, Key: key},
		&api.KVTxnOp{Verb: api.KVCheckSession, Key: holder.Key, Session: holder.Owner},
		&api.KVTxnOp{Verb: api.KVLock, Key: key, Value: queue.Encode(request), Session: holder.Owner})
	if err == nil && failed >= 0 {
		err = queue.ErrConflict
	}
	return err
}

// sight reads the lock, the history, the waiters and the metadata by quorum.
func (s *store) sight(ctx context.Context, name string) (sight queue.Sight, err error) {
	results, _, err := s.consult(ctx,
		&api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: s.keys.lock(name)},
		&api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: s.keys.history(name)},
		&api.KVTxnOp{Verb: api.KVGetTree, Key: s.keys.waiters(name)},
		&api.KVTxnOp{Verb: api.KVGetTree, Key: s.keys.described(name)})
	if err != nil {
		return sight, err
	}
	if results[0].Session != "" {
		if sight.Holder, err = s.holder(ctx, results[0]); err != nil {
			return sight, err
		}
	}
	sight.History = queue.DecodeHistory(results[1].Value, 0).Tenures
	waiters, metadata := s.keys.apart(name, results[2:])
	sight.Holder.Metadata = metadata[sight.Holder.Owner]
	sight.Waiting = s.keys.candidates(name, inOrder(waiters))
	for i, c := range sight.Waiting {
		sight.Waiting[i].Metadata = metadata[c.Owner]
	}
	return sight, nil
}

// holder returns the candidate that has locked the key. A candidate of another program is
// identified by its value or by the name of its session.
func (s *store) holder(ctx context.Context, lock *api.KVPair) (queue.Holder, error) {
	value, ours := decodeHolder(lock.Value)
	h := queue.Holder{Token: election.Token(lock.ModifyIndex), Since: value.Since,
		Candidate: queue.Candidate{ID: value.ID, Key: lock.Key, Owner: lock.Session, Foreign: !ours}}
	switch {
	case ours:
		return h, nil
	case len(lock.Value) > 0:
		h.ID = string(lock.Value)
		return h, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	h.ID = lock.Session
	entry, _, err := s.client.Session().Info(lock.Session, (&api.QueryOptions{}).WithContext(ctx))
	if entry != nil && entry.Name != "" {
		h.ID = entry.Name
	}
	return h, err
}

// keys builds the names of the keys below a prefix.
type keys struct{ prefix string }

// sideRoot is the prefix of all keys except the locks.
const sideRoot = "conclave/elections/"

// escaper turns a name into one segment; unescaper reverses it.
var (
	escaper   = strings.NewReplacer("%", "%25", "/", "%2F")
	unescaper = strings.NewReplacer("%2F", "/", "%25", "%")
)

func (k keys) lock(name string) string      { return k.prefix + name + "/" + api.DefaultSemaphoreKey }
func (k keys) root() string                 { return k.prefix + sideRoot }
func (k keys) side(name string) string      { return k.root() + escaper.Replace(name) + "/" }
func (k keys) waiters(name string) string   { return k.side(name) + "line/" }
func (k keys) described(name string) string { return k.side(name) + "metadata/" }
func (k keys) request(name string) string   { return k.side(name) + "request" }
func (k keys) history(name string) string   { return k.side(name) + "history" }

// waiter returns the key of a waiter. The priority is a segment of its own, so the highest
// one can be found by listing the segments.
func (k keys) waiter(claim election.Claim) string {
	return fmt.Sprintf("%s%04d/%s", k.waiters(claim.Election), claim.Priority, claim.Nonce)
}

// metadata returns the key of a candidate's metadata. The candidate's session locks it,
// together with the key of the waiter or of the election.
func (k keys) metadata(claim election.Claim) string { return k.described(claim.Election) + claim.Nonce }

// isWaiter reports whether a key below those of the waiters belongs to a waiter. It may
// also be the lock of another election, because names are free. That key has a different
// last segment, or one segment more than a waiter's.
func (k keys) isWaiter(name, key string) bool {
	rest, within := strings.CutPrefix(key, k.waiters(name))
	priority, nonce, two := strings.Cut(rest, "/")
	return within && two && isPriority(priority) && nonce != api.DefaultSemaphoreKey && !strings.Contains(nonce, "/")
}

// isPriority reports whether a segment is a priority.
func isPriority(segment string) bool {
	return len(segment) == 4 && strings.Trim(segment, "0123456789") == ""
}

// apart separates the keys of waiters from the metadata, which it returns by session.
func (k keys) apart(name string, found []*api.KVPair) (waiters []*api.KVPair, metadata map[string][]byte) {
	metadata = make(map[string][]byte)
	for _, pair := range found {
		switch {
		case k.isWaiter(name, pair.Key):
			waiters = append(waiters, pair)
		case pair.Session != "" && strings.HasPrefix(pair.Key, k.described(name)):
			metadata[pair.Session] = pair.Value
		}
	}
	return waiters, metadata
}

// priorityOf reads the priority from the key of a waiter, or from its segment.
func (k keys) priorityOf(name, key string) int {
	segment, _, _ := strings.Cut(strings.TrimPrefix(key, k.waiters(name)), "/")
	priority, _ := strconv.Atoi(segment) // a damaged one counts as priority 0
	return priority
}
