package etcd

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// nomination is the value in which the leader names the next leader, and in which that
// candidate answers. It disappears with the leader's lease.
type nomination struct {
	// Nominee is the key of the candidate.
	Nominee string      `json:"nominee"`
	State   queue.State `json:"state,omitempty"`
	Error   string      `json:"error,omitempty"`

	revision int64 // of the last change; zero for no nomination
}

func decodeNomination(found []*mvccpb.KeyValue) (n nomination) {
	if len(found) == 1 && json.Unmarshal(found[0].Value, &n) == nil {
		n.revision = found[0].ModRevision
	}
	return n
}

// shown converts the nomination to what its nominee sees.
func (n nomination) shown() queue.Nomination {
	return queue.Nomination{Round: strconv.FormatInt(n.revision, 10), State: n.State, Error: n.Error, Version: uint64(n.revision)}
}

// Waiters yields the candidates behind this one in the queue.
func (e *entry) Waiters(ctx context.Context) iter.Seq2[queue.Candidate, error] {
	return queue.Each(e.waiters(ctx))
}

func (e *entry) waiters(ctx context.Context) ([]queue.Candidate, error) {
	all, _, err := e.queue(ctx, e.claim.Election)
	for len(all) > 0 && all[0].Created <= uint64(e.created.Load()) {
		all = all[1:]
	}
	return all, err
}

// Nominate writes the nomination, under the holder's lease, and touches the key of the
// chosen candidate.
func (e *entry) Nominate(ctx context.Context, chosen queue.Candidate) (queue.Nomination, error) {
	text := queue.Encode(nomination{Nominee: chosen.Key})
	_, err := e.txn(ctx, e.mine(), stands(chosen)).
		Then(clientv3.OpPut(e.keys.nomination(e.claim.Election), string(text), clientv3.WithLease(e.lease)), touch(chosen.Key)).
		Commit()
	return queue.Nomination{}, err
}

// answerPause is how long the holder waits for an event before it reads without one.
const answerPause = time.Second

// Answered reads the nomination, with a quorum read.
func (e *entry) Answered(ctx context.Context, chosen queue.Candidate, n queue.Nomination) (queue.Nomination, error) {
	key := e.keys.nomination(e.claim.Election)
	if n.Version != 0 && e.awaitChange(ctx, int64(n.Version), answerPause, span{from: key}, span{from: chosen.Key}) != nil {
		queue.Pause(ctx)
	}
	answer, err := e.txn(ctx, e.mine()).
		Then(clientv3.OpGet(key), clientv3.OpGet(chosen.Key, clientv3.WithKeysOnly())).
		Commit()
	if err != nil {
		return n, err
	}
	if !answer.Succeeded {
		return n, errNoKey
	}
	there, seen := kvs(answer, 1), decodeNomination(kvs(answer, 0))
	switch {
	case len(there) == 0 || uint64(there[0].CreateRevision) != chosen.Created:
		return n, election.ErrNoCandidate
	case seen.Nominee != chosen.Key:
		return n, queue.ErrReplaced
	}
	n = seen.shown()
	n.Version = uint64(answer.Header.Revision)
	return n, nil
}

// Answer writes the answer into the nomination, unless another one has replaced it.
func (e *entry) Answer(ctx context.Context, n queue.Nomination) error {
	key := e.keys.nomination(e.claim.Election)
	text := queue.Encode(nomination{Nominee: e.key, State: n.State, Error: n.Error})
	_, err := e.txn(ctx, clientv3.Compare(clientv3.ModRevision(key), "=", int64(n.Version))).
		Then(clientv3.OpPut(key, string(text), clientv3.WithIgnoreLease())).
		Commit()
	return err
}

// moveMax is how many candidates one transaction sends to the end of the queue; servers
// allow 128 operations.
const moveMax = 100

// Promote sends the candidates before the chosen one to the end of the queue (etcd-D6): it
// deletes their keys, and they put new ones.
func (e *entry) Promote(ctx context.Context, chosen queue.Candidate) error {
	for {
		all, _, err := e.queue(ctx, e.claim.Election)
		if err != nil {
			return err
		}
		if len(all) == 0 || all[0].Key != e.key {
			return errNoKey
		}
		at := slices.IndexFunc(all, func(c queue.Candidate) bool { return c.Key == chosen.Key && c.Created == chosen.Created })
		switch {
		case at < 0:
			return election.ErrNoCandidate
		case at == 1:
			return nil
		case !queue.AllOurs(all[1:at]):
			return queue.ErrForeign
		}
		var moves []clientv3.Op
		for _, c := range all[1:min(at, 1+moveMax)] {
			moves = append(moves, clientv3.OpDelete(c.Key))
		}
		if _, err := e.txn(ctx, e.mine(), stands(chosen)).Then(moves...).Commit(); err != nil {
			return err
		}
	}
}
