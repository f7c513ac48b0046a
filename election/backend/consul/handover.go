package consul

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// Waiters yields the waiters. Those of "consul lock" cannot be seen.
func (e *entry) Waiters(ctx context.Context) iter.Seq2[queue.Candidate, error] {
	now, err := e.look(ctx)
	return queue.Each(e.keys.candidates(e.claim.Election, now.waiters), err)
}

// Nominate writes the nomination into the waiter's key, and touches the key before it,
// which the waiter watches.
func (e *entry) Nominate(ctx context.Context, chosen queue.Candidate) (queue.Nomination, error) {
	n := queue.Nomination{Round: fmt.Sprintf("%d.%d", e.token.Load(), e.rounds.Add(1))}
	for {
		now, err := e.look(ctx)
		if err != nil {
			return n, err
		}
		at := now.find(chosen.Key)
		if at < 0 {
			return n, election.ErrNoCandidate
		}
		one := now.waiters[at]
		one.Round, one.State, one.Error = n.Round, "", ""
		ops := []*api.KVTxnOp{e.mine(), one.change()}
		if at > 0 {
			ops = append(ops, now.waiters[at-1].change())
		}
		switch _, failed, err := e.transact(ctx, ops...); {
		case err != nil || failed < 0:
			return n, err
		case failed == 0:
			return n, errNotHeld
		}
	}
}

// answerPause is how long the holder waits for an event before it reads without one.
const answerPause = time.Second

// Answered reads the key of the nominee.
func (e *entry) Answered(ctx context.Context, chosen queue.Candidate, n queue.Nomination) (queue.Nomination, error) {
	if n.Version != 0 && e.await(ctx, queriesOfHolders, answerPause,
		watched{key: chosen.Key, index: n.Version}, watched{key: e.lock, index: e.token.Load()}) != nil {
		queue.Pause(ctx)
	}
	now, err := e.look(ctx)
	if err != nil {
		return n, err
	}
	at := now.find(chosen.Key)
	switch {
	case now.lock.Session != e.sessionID():
		return n, errNotHeld
	case at < 0:
		return n, election.ErrNoCandidate
	case now.waiters[at].Round != n.Round:
		return n, queue.ErrReplaced
	}
	return now.waiters[at].nomination(), nil
}

// Promote does nothing: Leave hands the key over.
func (e *entry) Promote(context.Context, queue.Candidate) error { return nil }

// Answer writes the answer into this candidate's key, unless another nomination has
// replaced this one.
func (e *entry) Answer(ctx context.Context, n queue.Nomination) error {
	now, err := e.look(ctx)
	if err != nil || now.at < 0 || now.waiters[now.at].Round != n.Round {
		return err
	}
	own := now.waiters[now.at]
	own.State, own.Error = n.State, n.Error
	_, failed, err := e.transact(ctx, own.change())
	if err == nil && failed >= 0 {
		err = queue.ErrConflict
	}
	return err
}

// rival returns the waiter that outranks the holder; empty if there is none, or if that
// cannot be found out now.
func (e *entry) rival(ctx context.Context) string {
	within, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	name := e.claim.Election
	segments, _, err := e.client.KV().Keys(e.keys.waiters(name), "/", (&api.QueryOptions{}).WithContext(within))
	if err != nil || !slices.ContainsFunc(segments, func(segment string) bool {
		return e.keys.priorityOf(name, segment) > e.claim.Priority
	}) {
		return ""
	}
	now, _ := e.look(ctx)
	rival, _ := queue.Rival(e.keys.candidates(name, now.waiters), e.claim.Priority)
	return rival.ID
}

// unlock returns the operation that unlocks the key. The end of the session would unlock it
// too, but with the lock-delay.
func (e *entry) unlock() *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVUnlock, Key: e.lock, Flags: api.LockFlagValue, Session: e.sessionID()}
}

// Leave unlocks the key, or moves the lock to the session of the successor (consul-C6).
func (e *entry) Leave(ctx context.Context, history *queue.History, successor *queue.Candidate) error {
	ops := []*api.KVTxnOp{e.mine(), e.unlock()}
	if successor != nil {
		ops = append(ops,
			&api.KVTxnOp{Verb: api.KVCheckSession, Key: successor.Key, Session: successor.Owner},
			&api.KVTxnOp{Verb: api.KVLock, Key: e.lock, Flags: api.LockFlagValue, Session: successor.Owner, Value: newHolder(successor.ID)},
			&api.KVTxnOp{Verb: api.KVDelete, Key: successor.Key})
	}
	if history != nil {
		ops = append(ops, e.put(*history))
	}
	_, failed, err := e.transact(ctx, ops...)
	switch {
	case err != nil:
		return err
	case failed < 0:
		e.free.Store(true)
		return nil
	case failed < 2:
		e.free.Store(true)
		return errNotHeld
	case failed == len(ops)-1 && history != nil:
		return queue.ErrConflict
	}
	return election.ErrNoCandidate
}
