package consul

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election/queue"
)

// watched is a key, or with a slash at its end all below it, and the index at
// which it was seen.
type watched struct {
	key   string
	index uint64
}

// get reads a key by quorum; with an index it waits, for at most the limit,
// until the key's is another one.
func (s *store) get(ctx context.Context, key string, index uint64, limit time.Duration) (*api.KVPair, uint64, error) {
	// Servers wait up to a sixteenth longer.
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

// await returns when one of the keys may have changed, or after the limit. An
// error says that the store cannot tell.
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

// Wait returns when there is a reason to look again (consul-C5).
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

// guardLimit is how long a leader waits for news in one query.
const guardLimit = 30 * time.Second

// Guard follows the lock and the request.
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

// observer shows one election.
type observer struct {
	*store
	name string
	keys []watched // as of the latest look
}

// Observe returns an observer. It sees candidates of "consul lock" when they
// lead, by the names of their sessions.
func (s *store) Observe(_ context.Context, name string) queue.Observer {
	return &observer{store: s, name: name,
		keys: []watched{{key: s.keys.lock(name)}, {key: s.keys.side(name)}}}
}

// observeLimit is after how long an observer looks without an event, so that
// it notices servers that have gone silently.
const observeLimit = 10 * time.Second

// Look reads the election, after the indexes from which its changes can be
// awaited, unless it is looked at once.
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
