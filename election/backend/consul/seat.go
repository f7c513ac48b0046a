package consul

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
)

// seat is what a Backend knows of a claim from before anything is sent for it
// until it is released.
type seat struct {
	claim   election.Claim
	lock    string // the election's key
	request string
	ticket  string // the candidate's key in line
	// ctx ends when the claim is released.
	ctx   context.Context
	leave context.CancelFunc
	// left is when the first release failed, 0 for never. The Backend's mutex
	// guards it.
	left election.Instant
	// news and lost are those of the grant.
	news chan struct{}
	lost chan struct{}

	mu      sync.Mutex
	session string // empty while its creation was not answered
	granted bool
	token   election.Token
	history history // as it was when the grant was taken up
	nominee *ticket // to whom the key is handed over
	rounds  int     // nominations so far
}

func newSeat(b *Backend, claim election.Claim) *seat {
	s := &seat{claim: claim, lock: b.lockKey(claim.Election), request: b.requestKey(claim.Election),
		ticket: b.ticketKey(claim), news: make(chan struct{}, 1), lost: make(chan struct{})}
	s.ctx, s.leave = context.WithCancel(context.Background())
	return s
}

// bind returns a context that also ends when the claim is released.
func (s *seat) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func (s *seat) setSession(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = id
}

func (s *seat) sessionID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

func (s *seat) setGranted(token election.Token, h history) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted, s.token, s.history = true, token, h
}

func (s *seat) isGranted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted
}

// mine fails without the lock.
func (s *seat) mine() *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVCheckSession, Key: s.lock, Session: s.sessionID()}
}

const (
	// retryPause is the pause after a failure.
	retryPause = 200 * time.Millisecond
	// guardLimit is how long a leader waits for news in one query.
	guardLimit = 30 * time.Second
)

// guard tells of the end of the lock and of requests until the claim is
// released.
func (b *Backend) guard(s *seat) {
	b.group.Go(func() {
		b.follow(s.ctx, s.lock, func(pair *api.KVPair) bool {
			held := pair != nil && pair.Session == s.sessionID()
			if !held {
				close(s.lost)
			}
			return held
		})
	})
	b.group.Go(func() {
		b.follow(s.ctx, s.request, func(pair *api.KVPair) bool {
			if pair != nil {
				select {
				case s.news <- struct{}{}:
				default:
				}
			}
			return true
		})
	})
}

// follow shows a key as it is and whenever it may have changed, until the
// function returns false.
func (b *Backend) follow(ctx context.Context, key string, show func(*api.KVPair) bool) {
	for index := uint64(0); ctx.Err() == nil; {
		pair, now, err := b.get(ctx, key, index, guardLimit)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			index = 0
			sleep(ctx, retryPause)
		case now == index:
		case !show(pair):
			return
		default:
			index = now
		}
	}
}

// get reads a key by quorum; with an index it waits, for at most the limit,
// until the key's is another one.
func (b *Backend) get(ctx context.Context, key string, index uint64, limit time.Duration,
) (*api.KVPair, uint64, error) {
	// Servers wait up to a sixteenth longer. One that has gone silently must
	// not be waited for.
	ctx, cancel := context.WithTimeout(ctx, limit+limit/16+answerLimit)
	defer cancel()
	options := (&api.QueryOptions{RequireConsistent: true, WaitIndex: index, WaitTime: limit}).WithContext(ctx)
	pair, meta, err := b.client.KV().Get(key, options)
	if err != nil {
		return nil, 0, err
	}
	return pair, max(1, meta.LastIndex), nil
}

// answerLimit is how long a server may take to answer.
const answerLimit = 5 * time.Second

// watched is a key with the index at which it was seen.
type watched struct {
	key   string
	index uint64
}

// await returns when one of the keys may have changed, or after the limit.
func (b *Backend) await(ctx context.Context, limit time.Duration, keys ...watched) {
	if limit <= 0 {
		return
	}
	var queries sync.WaitGroup
	defer queries.Wait()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	changed := make(chan struct{}, len(keys))
	for _, k := range keys {
		queries.Go(func() {
			if _, _, err := b.get(ctx, k.key, k.index, limit); err != nil {
				sleep(ctx, retryPause)
			}
			changed <- struct{}{}
		})
	}
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
