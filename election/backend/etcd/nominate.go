package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
)

// nomination is what the leader writes to choose who leads next, and what the
// chosen one answers there. It goes with the leader's lease.
type nomination struct {
	// Nominee is the key of the candidate.
	Nominee string `json:"nominee"`
	// State is empty, stateReady or stateFailed.
	State string `json:"state,omitempty"`
	// Error is why the candidate could not warm up.
	Error string `json:"error,omitempty"`

	revision int64 // of the last change, zero for no nomination
}

const (
	stateReady  = "ready"
	stateFailed = "failed"
)

func decodeNomination(kvs []*mvccpb.KeyValue) (n nomination) {
	if len(kvs) == 1 && json.Unmarshal(kvs[0].Value, &n) == nil {
		n.revision = kvs[0].ModRevision
	}
	return n
}

func (n nomination) encode() string {
	text, err := json.Marshal(n)
	if err != nil {
		return "" // three strings: cannot be
	}
	return string(text)
}

// Nominate chooses the first in line with this id. A candidate of this package
// warms up first. Those before it are then sent to the end of the line (D7), so
// that it leads next whenever the grant ends. A candidate of etcdctl is ready
// at once.
func (b *Backend) Nominate(ctx context.Context, grant election.Grant, id string) error {
	s := b.seat(grant.Claim.Nonce)
	err := fmt.Errorf("%w: it was released", election.ErrLost)
	if s != nil {
		err = b.nominate(ctx, s, id)
	}
	if err != nil {
		return fmt.Errorf("etcd: nominate %q in election %q: %w", id, grant.Claim.Election, mark(err))
	}
	return nil
}

func (b *Backend) nominate(ctx context.Context, s *seat, id string) error {
	line, err := b.members(ctx, s.claim.Election)
	if err != nil {
		return err
	}
	line = after(line, s.revision())
	at := slices.IndexFunc(line, func(m member) bool { return m.id == id })
	switch {
	case at < 0:
		return election.ErrNoCandidate
	case !onlyOurs(line[:at]):
		return errForeign
	case line[at].ours():
		if err := b.prepare(ctx, s, line[at]); err != nil {
			return err
		}
	}
	return b.bringForward(ctx, s, line[at])
}

var errForeign = errors.New("candidates of another program, such as etcdctl, are in line before it and " +
	"cannot be passed over; wait until they have led, or end them")

// prepare tells the candidate that it is chosen, and waits until it is ready.
func (b *Backend) prepare(ctx context.Context, s *seat, chosen member) error {
	key := b.nominationKey(s.claim.Election)
	answer, err := b.client.Txn(ctx).
		If(s.mine(), chosen.there()).
		Then(clientv3.OpPut(key, nomination{Nominee: chosen.key}.encode(), clientv3.WithLease(s.lease)), touch(chosen.key)).
		Else(clientv3.OpGet(s.key, clientv3.WithKeysOnly())).
		Commit()
	if err != nil {
		return err
	}
	for {
		ready, revision, err := b.readiness(ctx, s, chosen)
		if ready || err != nil {
			return err
		}
		b.awaitChange(ctx, max(revision, answer.Header.Revision), readinessPause, span{from: key}, span{from: chosen.key})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// readinessPause is how long the holder waits without a sign before it looks
// anyway.
const readinessPause = time.Second

// touch changes nothing but the revision: whoever watches the key looks.
func touch(key string) clientv3.Op {
	return clientv3.OpPut(key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
}

// readiness says whether the chosen one is ready, at which revision, and why it
// never will be.
func (b *Backend) readiness(ctx context.Context, s *seat, chosen member) (bool, int64, error) {
	answer, err := b.client.Txn(ctx).
		If(s.mine()).
		Then(clientv3.OpGet(b.nominationKey(s.claim.Election)), clientv3.OpGet(chosen.key, clientv3.WithKeysOnly())).
		Commit()
	if err != nil {
		return false, 0, err
	}
	if !answer.Succeeded {
		return false, 0, errNoKey
	}
	n := decodeNomination(answer.Responses[0].GetResponseRange().Kvs)
	there := answer.Responses[1].GetResponseRange().Kvs
	switch {
	case len(there) == 0 || there[0].CreateRevision != chosen.created:
		return false, 0, fmt.Errorf("%w any more", election.ErrNoCandidate)
	case n.Nominee != chosen.key:
		return false, 0, errors.New("another candidate was chosen meanwhile")
	case n.State == stateFailed:
		return false, 0, fmt.Errorf("it could not get ready: %s", n.Error)
	}
	return n.State == stateReady, answer.Header.Revision, nil
}

// moveMax is how many candidates one transaction sends to the end of the line;
// servers allow 128 operations.
const moveMax = 100

// bringForward sends those before the chosen one to the end of the line: it
// deletes their keys, and they put new ones.
func (b *Backend) bringForward(ctx context.Context, s *seat, chosen member) error {
	for {
		line, err := b.members(ctx, s.claim.Election)
		if err != nil {
			return err
		}
		if len(line) == 0 || line[0].key != s.key {
			return errNoKey
		}
		at := slices.IndexFunc(line, func(m member) bool { return m.key == chosen.key && m.created == chosen.created })
		switch {
		case at < 0:
			return fmt.Errorf("%w any more", election.ErrNoCandidate)
		case at == 1:
			return nil
		case !onlyOurs(line[1:at]):
			return errForeign
		}
		conditions := []clientv3.Cmp{s.mine(), chosen.there()}
		var moves []clientv3.Op
		for _, m := range line[1:min(at, 1+moveMax)] {
			moves = append(moves, clientv3.OpDelete(m.key))
		}
		if _, err := b.client.Txn(ctx).If(conditions...).Then(moves...).Commit(); err != nil {
			return err
		}
	}
}

// warming is the warm-up of a candidate that was nominated.
type warming struct {
	revision int64 // of the nomination that is heeded
	warm     bool  // the function has returned nil; belongs to the latest warm-up that has begun
	cancel   context.CancelFunc
	done     chan struct{}
}

// warm heeds a nomination of this candidate, in a goroutine of its own. One that
// was warmed up is ready; one that could not warm up, or was told to end before,
// is asked anew. Its function never runs twice at once.
func (w *waiter) warm(ctx context.Context, n nomination) {
	if n.Nominee != w.seat.key || n.State != "" || n.revision == w.warming.revision {
		return
	}
	w.warming.stop()
	ctx, cancel := context.WithCancel(ctx)
	before, done := w.warming.done, make(chan struct{})
	w.warming.revision, w.warming.cancel, w.warming.done = n.revision, cancel, done
	w.backend.group.Go(func() {
		defer close(done)
		defer cancel()
		if before != nil {
			<-before
		}
		n.State = stateReady
		if err := w.warming.warmUp(ctx, w.seat.claim.Warm); err != nil {
			n.State, n.Error = stateFailed, err.Error()
		}
		w.backend.answer(ctx, w.seat, n)
	})
}

// warmUp calls the function until it has succeeded once. Warm-ups come one after
// another.
func (w *warming) warmUp(ctx context.Context, function func(context.Context) error) error {
	if w.warm || function == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	err := function(ctx)
	w.warm = err == nil
	return err
}

// answer tells the holder what came of its nomination, unless there is another
// one by now.
func (b *Backend) answer(ctx context.Context, s *seat, n nomination) {
	key := b.nominationKey(s.claim.Election)
	for ctx.Err() == nil {
		_, err := b.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", n.revision)).
			Then(clientv3.OpPut(key, n.encode(), clientv3.WithIgnoreLease())).
			Commit()
		if err == nil {
			return
		}
		sleep(ctx, watchPause)
	}
}

// stop tells the warm-up to end.
func (w *warming) stop() {
	if w.cancel != nil {
		w.cancel()
	}
}

// finish tells the warm-up to end and waits for it, but not for ever: it is not
// ours.
func (w *warming) finish(limit time.Duration) {
	if w.cancel == nil {
		return
	}
	w.cancel()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
	}
}
