package consul

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election/queue"
)

// watched is a key, or a prefix if it ends in a slash, with the index at which it was read.
type watched struct {
	key   string
	index uint64
}

// get reads a key by quorum. With an index it first waits, at most for the limit, until the
// key's index differs.
func (s *store) get(ctx context.Context, key string, index uint64, limit time.Duration) (*api.KVPair, uint64, error) {
	// Servers may wait up to a sixteenth longer.
	ctx, cancel := context.WithTimeout(ctx, limit+limit/16+answerLimit)
	defer cancel()
	options := (&api.QueryOptions{RequireConsistent: true, WaitIndex: index, WaitTime: limit}).WithContext(ctx)
	if key[len(key)-1] == '/' {
		_, meta, err := s.client.KV().Keys(key, "/", options)
		return nil, indexOf(meta), err
	}
	pair, meta, err := s.client.KV().Get(key, options)
	return pair, indexOf(meta), err
}

func indexOf(meta *api.QueryMeta) uint64 {
	if meta == nil {
		return 0
	}
	return max(1, meta.LastIndex)
}

// await returns when one of the keys may have changed, or after the limit. An error means
// that the store cannot report changes.
func (s *store) await(ctx context.Context, limit time.Duration, keys ...watched) error {
	if limit <= 0 {
		return nil
	}
	var queries sync.WaitGroup
	defer queries.Wait()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	changed := make(chan error, len(keys))
	for _, k := range keys {
		queries.Go(func() {
			_, _, err := s.get(ctx, k.key, k.index, limit)
			changed <- err
		})
	}
	select {
	case err := <-changed:
		if ctx.Err() == nil {
			return err
		}
	case <-ctx.Done():
	}
	return nil
}

// Wait returns when there is a reason to read again (consul-C5).
func (e *entry) Wait(ctx context.Context, limit time.Duration) error {
	now := e.seen
	own, free := now.waiters[now.at], now.lock.Session == ""
	keys := []watched{{own.key, own.modified}, {now.lock.Key, now.lock.ModifyIndex}}
	if now.at > 0 {
		before := now.waiters[now.at-1]
		keys = append(keys, watched{before.key, before.modified})
		if own.Round == "" || free {
			keys = keys[2:]
		}
	}
	return e.await(ctx, limit, keys...)
}

// guardLimit is how long one query of a leader waits for news.
const guardLimit = 30 * time.Second

// Guard watches the lock and the request.
func (e *entry) Guard(ctx context.Context, news func()) error {
	lock, request := watched{key: e.lock}, watched{key: e.request}
	for {
		held, index, err := e.get(ctx, lock.key, 0, guardLimit)
		switch {
		case err != nil:
			return err
		case held == nil || held.Session != e.sessionID():
			return errNotHeld
		}
		lock.index = index
		asked, index, err := e.get(ctx, request.key, 0, guardLimit)
		switch {
		case err != nil:
			return err
		case asked != nil && index != request.index:
			news()
		}
		request.index = index
		if err := e.await(ctx, guardLimit, lock, request); err != nil {
			return err
		}
	}
}

// observer observes one election.
type observer struct {
	*store
	name string
	keys []watched // as of the last Look
}

// Observe returns an observer. It shows a candidate of "consul lock" only while it leads,
// by the name of its session.
func (s *store) Observe(_ context.Context, name string) queue.Observer {
	return &observer{store: s, name: name,
		keys: []watched{{key: s.keys.lock(name)}, {key: s.keys.side(name)}}}
}

// observeLimit is after how long an observer reads without an event, so that it notices
// servers that have gone silently.
const observeLimit = 10 * time.Second

// Look reads the election. Before that it reads the indexes from which Wait waits for
// changes, unless the caller looks only once.
func (o *observer) Look(ctx context.Context, once bool) (queue.Sight, error) {
	for i, k := range o.keys {
		var err error
		if once {
			break
		}
		if _, o.keys[i].index, err = o.get(ctx, k.key, 0, observeLimit); err != nil {
			return queue.Sight{}, err
		}
	}
	return o.sight(ctx, o.name)
}

// Wait waits for a change.
func (o *observer) Wait(ctx context.Context) error {
	return o.await(ctx, observeLimit, o.keys...)
}
