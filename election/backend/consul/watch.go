package consul

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election/queue"
)

// watched is a key, or a prefix if it ends in a slash, as it was read.
type watched struct {
	key   string
	index uint64
	// empty: there was nothing. Then the index is that of all keys, and grows with each write.
	empty bool
}

// get reads a key by quorum. With an index it first waits, at most for the limit, until the
// key's index differs. The pair is nil for a prefix.
func (s *store) get(ctx context.Context, key string, index uint64, limit time.Duration) (*api.KVPair, watched, error) {
	// Servers may wait up to a sixteenth longer.
	ctx, cancel := context.WithTimeout(ctx, limit+limit/16+answerLimit)
	defer cancel()
	options := (&api.QueryOptions{RequireConsistent: true, WaitIndex: index, WaitTime: limit}).WithContext(ctx)
	if key[len(key)-1] == '/' {
		keys, meta, err := s.client.KV().Keys(key, "/", options)
		return nil, watched{key, indexOf(meta), len(keys) == 0}, err
	}
	pair, meta, err := s.client.KV().Get(key, options)
	return pair, watched{key, indexOf(meta), pair == nil}, err
}

func indexOf(meta *api.QueryMeta) uint64 {
	if meta == nil {
		return 0
	}
	return max(1, meta.LastIndex)
}

// queryLimit is how long a server keeps a blocking query without an answer.
const queryLimit = 30 * time.Second

// How many blocking queries a store may have open after it has begun those of an observer, a holder
// or a waiter. Each takes a connection, and an agent allows 200 from one address. Beyond that they
// poll: first observers, because nobody leads later for that.
const (
	queriesOfObservers = 32
	queriesOfHolders   = 64
	queriesOfWaiters   = 96
)

// How often a store polls: each thing once in pollPause, but all of them together no more often
// than once in pollShare.
const (
	pollPause = time.Second
	pollShare = 20 * time.Millisecond
)

// queries wait for changes of some keys, until end: each with a blocking query of its own, or by
// polling if the store has too many.
type queries struct {
	news  chan error // from each task at most once: a key may have changed, or its task has failed
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// ask begins to wait for changes of the keys. If more than the most blocking queries were open
// then, it polls.
func (s *store) ask(ctx context.Context, most int64, keys ...watched) *queries {
	ctx, stop := context.WithCancel(ctx)
	q := &queries{news: make(chan error, len(keys)), stop: stop}
	if n := int64(len(keys)); s.asking.Add(n) > most {
		s.asking.Add(-n)
		q.tasks.Go(func() { s.poll(ctx, keys, q.news) })
		return q
	}
	for _, k := range keys {
		q.tasks.Go(func() {
			defer s.asking.Add(-1)
			for ctx.Err() == nil {
				changed, err := s.changed(ctx, &k, k.index, queryLimit)
				if changed || err != nil {
					q.news <- err
					return
				}
				queue.Pause(ctx) // for a key that does not exist, some servers answer at each write beside it
			}
		})
	}
	return q
}

// poll reads the keys now and then, until one may have changed.
func (s *store) poll(ctx context.Context, keys []watched, news chan<- error) {
	s.polling.Add(1)
	defer s.polling.Add(-1)
	for {
		timer := time.NewTimer(max(pollPause, time.Duration(s.polling.Load())*pollShare))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		for i := range keys {
			changed, err := s.changed(ctx, &keys[i], 0, answerLimit)
			if changed || err != nil {
				news <- err
				return
			}
		}
	}
}

// changed reads a key, and reports whether it may have changed. If not, it takes over the index,
// because the one of a key that does not exist grows.
func (s *store) changed(ctx context.Context, k *watched, index uint64, limit time.Duration) (bool, error) {
	_, now, err := s.get(ctx, k.key, index, limit)
	if err != nil || now.index != k.index && !(now.empty && k.empty) {
		return true, err
	}
	k.index = now.index
	return false, nil
}

// wait returns when one of the keys may have changed, or after the limit: then quiet is true. An
// error means that the store cannot report changes.
func (q *queries) wait(ctx context.Context, limit time.Duration) (quiet bool, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err = <-q.news:
		if ctx.Err() == nil {
			return false, err
		}
	case <-timer.C:
		return true, nil
	case <-ctx.Done():
	}
	return false, nil
}

func (q *queries) end() {
	q.stop()
	q.tasks.Wait()
}

// await returns when one of the keys may have changed, or after the limit. An error means
// that the store cannot report changes.
func (s *store) await(ctx context.Context, most int64, limit time.Duration, keys ...watched) error {
	q := s.ask(ctx, most, keys...)
	defer q.end()
	_, err := q.wait(ctx, limit)
	return err
}

// told returns the keys of which one changes when the candidate may have another place or is
// nominated.
func (n scene) told() []watched {
	own := n.waiters[n.at]
	mine := []watched{own.watched(), {key: n.lock.Key, index: n.lock.ModifyIndex}}
	if n.at == 0 {
		return mine
	}
	before := n.waiters[n.at-1] // which a nomination changes, too
	if own.Round == "" || n.lock.Session == "" {
		return []watched{before.watched()}
	}
	return append(mine, before.watched())
}

// Wait returns when there is a reason to read again (consul-C5). Queries that have told nothing
// go on with the next Wait, because to cancel one closes its connection.
func (e *entry) Wait(ctx context.Context, limit time.Duration) (err error) {
	if e.queries == nil {
		e.queries = e.ask(e.life, queriesOfWaiters, e.seen.told()...)
	}
	if e.quiet, err = e.queries.wait(ctx, limit); !e.quiet {
		e.listenNoMore()
	}
	return err
}

// listenNoMore ends the queries of a waiter.
func (e *entry) listenNoMore() {
	if e.queries != nil {
		e.queries.end()
	}
	e.queries, e.quiet = nil, false
}

// Guard watches the lock and the request.
func (e *entry) Guard(ctx context.Context, news func()) error {
	var request watched
	for {
		held, lock, err := e.get(ctx, e.lock, 0, answerLimit)
		switch {
		case err != nil:
			return err
		case held == nil || held.Session != e.sessionID():
			return errNotHeld
		}
		asked, now, err := e.get(ctx, e.request, 0, answerLimit)
		switch {
		case err != nil:
			return err
		case asked != nil && now.index != request.index:
			news()
		}
		request = now
		if err := e.await(ctx, queriesOfHolders, queryLimit, lock, request); err != nil {
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
		if _, o.keys[i], err = o.get(ctx, k.key, 0, answerLimit); err != nil {
			return queue.Sight{}, err
		}
	}
	return o.sight(ctx, o.name)
}

// Wait waits for a change.
func (o *observer) Wait(ctx context.Context) error {
	return o.await(ctx, queriesOfObservers, observeLimit, o.keys...)
}
