package consul

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// entry is a candidate: its session, its key as a waiter, and finally the lock.
type entry struct {
	*store
	life                  context.Context // ends when the claim is released
	claim                 election.Claim
	lock, request, waiter string // keys

	session atomic.Pointer[string] // nil until its creation was answered
	token   atomic.Uint64          // of the lock; zero if it was never held
	free    atomic.Bool            // the lock was released
	rounds  atomic.Int64           // number of nominations so far

	clearing sync.Once

	// The waiter uses the following fields. sure is when the last renewal was sent that a
	// quorum read has followed. It is zero once the claim leads, because the Elector then
	// watches the time (consul-C3).
	kept, sure clock.Instant
	seen       scene
	queries    *queries // wait for a change of what was seen; nil for none
	quiet      bool     // the last Wait has ended at its limit
	refused    int      // consecutive failures to lock the free key
}

// Entry returns the candidate of a claim.
func (s *store) Entry(life context.Context, claim election.Claim) queue.Entry {
	lock := s.keys.lock(claim.Election)
	return &entry{store: s, life: life, claim: claim, lock: lock, request: s.keys.request(claim.Election),
		waiter: s.keys.waiter(claim), seen: scene{lock: &api.KVPair{Key: lock}, at: -1}}
}

// sessionID returns the session's id; empty if there is none.
func (e *entry) sessionID() string {
	if id := e.session.Load(); id != nil {
		return *id
	}
	return ""
}

// sessionName makes it possible to find a session whose creation was not answered.
func sessionName(nonce string) string { return "conclave " + nonce }

// Create creates the session.
func (e *entry) Create(ctx context.Context) (queue.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	e.kept = e.now()
	e.sure = e.kept
	id, _, err := e.client.Session().CreateNoChecks(&api.SessionEntry{ // consul-C4
		Name: sessionName(e.claim.Nonce), TTL: e.claim.Lease.String(),
		Behavior: api.SessionBehaviorDelete, LockDelay: e.options.LockDelay,
	}, (&api.WriteOptions{}).WithContext(ctx))
	if err == nil {
		e.session.Store(&id)
	}
	return queue.Lease{Sent: e.kept, Length: e.claim.Lease}, err
}

// Enter writes the candidate's metadata and then its key as a waiter.
func (e *entry) Enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if len(e.claim.Metadata) > 0 {
		if err := e.acquire(ctx, e.keys.metadata(e.claim), e.claim.Metadata); err != nil {
			return err
		}
	}
	return e.acquire(ctx, e.waiter, queue.Encode(waiter{ID: e.claim.ID}))
}

// acquire writes a key of this candidate that disappears with its session.
func (e *entry) acquire(ctx context.Context, key string, value []byte) error {
	pair := &api.KVPair{Key: key, Value: value, Session: e.sessionID()}
	entered, _, err := e.client.KV().Acquire(pair, (&api.WriteOptions{}).WithContext(ctx))
	if err == nil && !entered {
		err = errors.New("its own key cannot be locked yet")
	}
	return err
}

// Renew renews the session, unless it is too late for that (consul-C3).
func (e *entry) Renew(ctx context.Context) (queue.Lease, error) {
	sent := e.now()
	if e.sure != 0 && sent.Sub(e.sure) > e.claim.Lease*3/4 {
		return queue.Lease{}, errPaused
	}
	var session *api.SessionEntry
	err := write(ctx, func(options *api.WriteOptions) (err error) {
		session, _, err = e.client.Session().Renew(e.sessionID(), options)
		return err
	})
	switch {
	case err != nil:
		return queue.Lease{}, err
	case session == nil:
		return queue.Lease{}, errNoSession
	}
	length, err := time.ParseDuration(session.TTL)
	if err != nil {
		return queue.Lease{}, fmt.Errorf("the session's TTL is %q: %w", session.TTL, err)
	}
	if e.sure != 0 {
		e.kept = sent
	}
	return queue.Lease{Sent: sent, Length: length}, nil
}

// look reads the lock and the waiters by quorum.
func (e *entry) look(ctx context.Context) (scene, error) {
	results, _, err := e.consult(ctx,
		&api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: e.lock},
		&api.KVTxnOp{Verb: api.KVGetTree, Key: e.keys.waiters(e.claim.Election)})
	if err != nil {
		return scene{at: -1}, err
	}
	waiters, _ := e.keys.apart(e.claim.Election, results[1:])
	now := scene{lock: results[0], waiters: inOrder(waiters)}
	now.at = now.find(e.waiter)
	return now, nil
}

// unmoved asks a quorum whether the keys are unchanged on which this candidate's place depends. A
// list of all waiters, read by each of them at each renewal, would grow with their square.
func (e *entry) unmoved(ctx context.Context) (bool, error) {
	var ops []*api.KVTxnOp
	for _, k := range append(e.seen.told(), e.seen.waiters[e.seen.at].watched()) {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckIndex, Key: k.key, Index: k.index})
	}
	_, failed, err := e.consult(ctx, ops...)
	return failed < 0, err
}

// Place finds this candidate among the waiters.
func (e *entry) Place(ctx context.Context) (queue.Place, error) {
	if e.quiet {
		same, err := e.unmoved(ctx)
		if err != nil {
			return queue.Place{}, err
		}
		if same {
			e.sure = e.kept
			return e.queued(), nil
		}
	}
	e.listenNoMore()
	now, err := e.look(ctx)
	if err != nil {
		return queue.Place{}, err
	}
	e.sure, e.seen = e.kept, now
	token := election.Token(now.lock.ModifyIndex)
	switch held := now.lock.Session; {
	case held == e.sessionID(): // also after a lost answer or a hand-over
	case token != 0 && now.lock.Flags != api.LockFlagValue:
		return queue.Place{}, election.Permanent(fmt.Errorf("key %q is in use for something else: its flags are %#x, "+
			"those of a lock %#x; choose another name", e.lock, now.lock.Flags, uint64(api.LockFlagValue)))
	case now.at < 0:
		return queue.Place{Standing: queue.Gone}, nil
	case now.at == 0 && held == "":
		return queue.Place{Standing: queue.Head}, nil
	default:
		e.refused = 0
		return e.queued(), nil
	}
	e.token.Store(uint64(token))
	return queue.Place{Standing: queue.Head, Token: token}, nil
}

// queued returns the place of a candidate that waits, as it was seen.
func (e *entry) queued() queue.Place {
	return queue.Place{Standing: queue.Queued, Nomination: e.seen.waiters[e.seen.at].nomination()}
}

// After each failure to lock a free key the pause doubles: a lock-delay may be a
// millisecond, like ours, or 15 seconds, like that of "consul lock".
const (
	refusedPause    = 2 * time.Millisecond
	refusedPauseMax = 500 * time.Millisecond
)

// Lock locks the key if it is still as it was read, and removes the waiter's key. A request
// that arrives late or twice must do nothing: locking a key again that is already held
// changes its index, which is the token.
func (e *entry) Lock(ctx context.Context) (election.Token, error) {
	results, failed, err := e.transact(ctx, unchanged(e.seen.lock),
		&api.KVTxnOp{Verb: api.KVLock, Key: e.lock, Value: newHolder(e.claim.ID), Flags: api.LockFlagValue, Session: e.sessionID()},
		&api.KVTxnOp{Verb: api.KVDelete, Key: e.waiter})
	if err != nil {
		return 0, err
	}
	if failed < 0 {
		locked := results[len(results)-1]
		e.token.Store(locked.ModifyIndex)
		return election.Token(locked.ModifyIndex), nil
	}
	// "consul lock" was faster, or there is a lock-delay, or the session has ended: the
	// next Place finds out.
	select {
	case <-time.After(min(refusedPause<<e.refused, refusedPauseMax)):
	case <-ctx.Done():
	}
	e.refused = min(e.refused+1, 10)
	return 0, nil
}

// mine returns the check that fails without the lock.
func (e *entry) mine() *api.KVTxnOp { return lockedBy{e.lock, e.sessionID()}.op() }

// Prove has a quorum confirm that the session holds the lock.
func (e *entry) Prove(ctx context.Context, history *queue.History) (queue.Proof, error) {
	ops, decide := []*api.KVTxnOp{e.mine(), {Verb: api.KVGetOrEmpty, Key: e.request}}, e.consult
	if history != nil {
		ops, decide = append(ops, e.put(*history)), e.transact
	}
	results, failed, err := decide(ctx, ops...)
	switch {
	case err != nil:
		return queue.Proof{}, err
	case failed == 0:
		return queue.Proof{}, errNotHeld
	case failed > 0:
		return queue.Proof{}, queue.ErrConflict
	}
	e.sure = 0
	proof := queue.Proof{Request: queue.DecodeRequest(results[1].Value)}
	if history != nil {
		proof.Version = results[2].ModifyIndex
	} else {
		proof.Rival = e.rival(ctx)
	}
	return proof, nil
}

// History reads the history's key.
func (e *entry) History(ctx context.Context) (queue.History, error) {
	results, _, err := e.consult(ctx, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: e.keys.history(e.claim.Election)})
	if err != nil {
		return queue.History{}, err
	}
	return queue.DecodeHistory(results[0].Value, results[0].ModifyIndex), nil
}

// Note writes the history unless it has changed since it was read.
func (e *entry) Note(ctx context.Context, history queue.History) error {
	_, _, err := e.transact(ctx, e.put(history))
	return err
}

func (e *entry) put(h queue.History) *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVCAS, Key: e.keys.history(e.claim.Election), Value: queue.Encode(h.Tenures), Index: h.Version}
}

// Revoke removes everything of the claim. If that fails, it goes on in the background, because the
// servers would keep the session, and with it the key, for two leases (consul-C7).
func (e *entry) Revoke(ctx context.Context) error {
	err := e.revoke(ctx)
	if err != nil {
		e.clearing.Do(func() { go e.clear() })
	}
	return err
}

// clear revokes for as long as the session may last.
func (e *entry) clear() {
	ctx, cancel := context.WithTimeout(e.store.life, 2*e.claim.Lease)
	defer cancel()
	for e.revoke(ctx) != nil {
		select {
		case <-time.After(e.claim.Lease / 10):
		case <-ctx.Done():
			return
		}
	}
}

// revoke unlocks the key if the session holds the lock, and ends the session, which removes
// everything of the claim. If the answer to the session's creation was lost, revoke looks
// for the session by its name; it holds nothing then.
func (e *entry) revoke(ctx context.Context) error {
	session := e.sessionID()
	if session == "" {
		var err error
		if session, err = e.findSession(ctx); session == "" {
			return err
		}
	} else if !e.free.Load() {
		if _, _, err := e.transact(ctx, e.unlock()); err != nil {
			return err
		}
	}
	return write(ctx, func(options *api.WriteOptions) error {
		_, err := e.client.Session().Destroy(session, options)
		return err
	})
}

// findSession returns the session of the claim, found by its name; empty for none.
func (e *entry) findSession(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	all, _, err := e.client.Session().List((&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	for _, session := range all {
		if session.Name == sessionName(e.claim.Nonce) {
			return session.ID, nil
		}
	}
	return "", err
}
