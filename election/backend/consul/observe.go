package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/ledger"
)

const (
	// observeSettle is how long an observer lets changes gather, so that a
	// hand-over is seen as one.
	observeSettle = 2 * time.Millisecond
	// observePause is the pause after a failure.
	observePause = 500 * time.Millisecond
	// observeLimit is after how long an observer looks without a sign, so that
	// it notices servers that have gone silently.
	observeLimit = 10 * time.Second
)

// Observe yields the election whenever it has changed. Candidates of "consul
// lock" are seen when they lead, by the names of their sessions.
func (b *Backend) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		last, first, failed := election.View{Election: name}, true, false
		for ctx.Err() == nil {
			lock, side, err := b.indexes(ctx, name)
			var view election.View
			if err == nil {
				view, _, err = b.view(ctx, name)
			}
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				view, err = last, fmt.Errorf("consul: observe election %q: %w", name, mark(err))
			}
			if (first || failed != (err != nil) || !equal(view, last)) && !yield(view, err) {
				return
			}
			last, first, failed = view, false, err != nil
			if err != nil {
				sleep(ctx, observePause)
				continue
			}
			b.awaitSign(ctx, name, lock, side)
			sleep(ctx, observeSettle)
		}
	}
}

// indexes returns those of the lock and of all beside it, from which changes
// can be awaited.
func (b *Backend) indexes(ctx context.Context, name string) (lock, side uint64, err error) {
	if _, lock, err = b.get(ctx, b.lockKey(name), 0, observeLimit); err == nil {
		side, err = b.sideIndex(ctx, name, 0)
	}
	return lock, side, err
}

// sideIndex returns the index of all keys beside the lock; with an index it
// waits for another one.
func (b *Backend) sideIndex(ctx context.Context, name string, index uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, observeLimit+observeLimit/16+answerLimit)
	defer cancel()
	options := (&api.QueryOptions{RequireConsistent: true, WaitIndex: index, WaitTime: observeLimit}).WithContext(ctx)
	_, meta, err := b.client.KV().Keys(b.side(name), "/", options)
	if err != nil {
		return 0, err
	}
	return max(1, meta.LastIndex), nil
}

// awaitSign returns when something may have changed.
func (b *Backend) awaitSign(ctx context.Context, name string, lock, side uint64) {
	var queries sync.WaitGroup
	defer queries.Wait()
	ctx, cancel := context.WithTimeout(ctx, observeLimit)
	defer cancel()
	changed := make(chan error, 2)
	queries.Go(func() {
		_, _, err := b.get(ctx, b.lockKey(name), lock, observeLimit)
		changed <- err
	})
	queries.Go(func() {
		_, err := b.sideIndex(ctx, name, side)
		changed <- err
	})
	select {
	case err := <-changed:
		if err != nil {
			sleep(ctx, observePause)
		}
	case <-ctx.Done():
	}
}

// view returns what can be seen of an election, and its history.
func (b *Backend) view(ctx context.Context, name string) (election.View, []election.Change, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	view := election.View{Election: name}
	results, _, err := b.consult(ctx,
		&api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: b.lockKey(name)},
		&api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: b.historyKey(name)},
		&api.KVTxnOp{Verb: api.KVGetTree, Key: b.lineKeys(name)})
	if err != nil {
		return view, nil, err
	}
	lock, changes := results[0], decodeHistory(results[1]).changes
	view.Token = ledger.Last(changes)
	if lock.Session != "" {
		h, err := b.leader(ctx, lock)
		if err != nil {
			return view, nil, err
		}
		view.Leader, view.Since, view.Token = h.ID, h.Since, election.Token(lock.ModifyIndex)
	}
	for _, t := range line(results[2:]) {
		view.Candidates = append(view.Candidates, t.ID)
	}
	return view, changes, nil
}

// leader says who holds the lock. Another program is known by its value, or by
// its session's name.
func (b *Backend) leader(ctx context.Context, lock *api.KVPair) (holder, error) {
	if h, ours := decodeHolder(lock.Value); ours {
		return h, nil
	}
	if len(lock.Value) > 0 {
		return holder{ID: string(lock.Value)}, nil
	}
	entry, _, err := b.client.Session().Info(lock.Session, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return holder{}, err
	}
	if entry == nil || entry.Name == "" {
		return holder{ID: lock.Session}, nil
	}
	return holder{ID: entry.Name}, nil
}

func equal(a, b election.View) bool {
	return a.Leader == b.Leader && a.Token == b.Token && a.Since.Equal(b.Since) &&
		slices.Equal(a.Candidates, b.Candidates)
}

// Elections returns the names of all elections in which a candidate of this
// package stands or has ever led.
func (b *Backend) Elections(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	options := (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	keys, _, err := b.client.KV().Keys(b.root(), "/", options)
	if err != nil {
		return nil, fmt.Errorf("consul: list elections: %w", mark(err))
	}
	var names []string
	for _, key := range keys {
		names = append(names, unescaper.Replace(strings.TrimSuffix(strings.TrimPrefix(key, b.root()), "/")))
	}
	slices.Sort(names)
	return names, nil
}

// History returns the latest leaderships of candidates of this package.
func (b *Backend) History(ctx context.Context, name string) ([]election.Change, error) {
	view, changes, err := b.view(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("consul: read the history of election %q: %w", name, mark(err))
	}
	present := view.Token
	if view.Leader == "" {
		present = 0
	}
	return election.OneByOne(ledger.Expire(changes, present, time.Now().UTC())), nil
}

// Ask leaves a request that goes with the leader's session.
func (b *Backend) Ask(ctx context.Context, name string, request election.Request) error {
	if err := b.ask(ctx, name, request); err != nil {
		return fmt.Errorf("consul: ask the leader of election %q: %w", name, mark(err))
	}
	return nil
}

func (b *Backend) ask(ctx context.Context, name string, request election.Request) error {
	for {
		results, _, err := b.consult(ctx, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: b.lockKey(name)})
		if err != nil {
			return err
		}
		lock := results[0]
		h, ours := decodeHolder(lock.Value)
		token := election.Token(lock.ModifyIndex)
		switch {
		case lock.Session == "":
			return election.ErrNoLeader
		case request.Token != 0 && request.Token != token:
			return fmt.Errorf("%w with token %d; the leader has token %d", election.ErrNoLeader, request.Token, token)
		case !ours:
			return fmt.Errorf("the key is locked by another program, such as \"consul lock\", which takes no requests; end it")
		}
		asked := request
		asked.Token = token
		text, err := json.Marshal(asked)
		if err != nil {
			return fmt.Errorf("request to %q: %w", h.ID, err)
		}
		_, failed, err := b.transact(ctx,
			&api.KVTxnOp{Verb: api.KVCheckSession, Key: lock.Key, Session: lock.Session},
			&api.KVTxnOp{Verb: api.KVLock, Key: b.requestKey(name), Value: text, Session: lock.Session})
		if err != nil || failed < 0 {
			return err
		}
	}
}
