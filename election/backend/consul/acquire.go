package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
)

// Acquire joins the line and waits until the key can be locked.
func (b *Backend) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	s, err := b.add(claim)
	if err != nil {
		return election.Grant{}, fmt.Errorf("consul: join election %q: %w", claim.Election, err)
	}
	ctx, cancel := s.bind(ctx)
	defer cancel()
	now := election.Now()
	w := &waiter{backend: b, seat: s, ttl: claim.Lease, kept: now, sure: now}
	defer w.warming.stop()
	if err := b.join(ctx, s); err != nil {
		return election.Grant{}, fmt.Errorf("consul: join election %q: %w", claim.Election, mark(err))
	}
	grant, err := w.awaitTurn(ctx)
	if err != nil {
		return election.Grant{}, fmt.Errorf("consul: wait in election %q: %w", claim.Election, mark(err))
	}
	b.guard(s)
	return grant, nil
}

// join makes the session and puts the candidate in line.
func (b *Backend) join(ctx context.Context, s *seat) error {
	entry := &api.SessionEntry{Name: sessionName(s.claim.Nonce), TTL: s.claim.Lease.String(),
		Behavior: api.SessionBehaviorDelete, LockDelay: b.options.LockDelay}
	id, err := b.create(ctx, entry)
	if err != nil {
		return err
	}
	s.setSession(id)
	return b.enter(ctx, s)
}

// create makes the session. Like every request of this package it has a time
// limit: an agent that has gone silently must not be waited for.
func (b *Backend) create(ctx context.Context, entry *api.SessionEntry) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	id, _, err := b.client.Session().CreateNoChecks(entry, (&api.WriteOptions{}).WithContext(ctx)) // C4
	return id, err
}

// sessionName lets a session be found whose creation was not answered.
func sessionName(nonce string) string { return "conclave " + nonce }

// enter puts the candidate at the end of the line. To repeat it does no harm.
func (b *Backend) enter(ctx context.Context, s *seat) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	pair := &api.KVPair{Key: s.ticket, Value: ticket{ID: s.claim.ID}.encode(), Session: s.sessionID()}
	entered, _, err := b.client.KV().Acquire(pair, (&api.WriteOptions{}).WithContext(ctx))
	if err == nil && !entered {
		err = errors.New("its own key in line cannot be locked yet")
	}
	return err
}

// waiter is one Acquire in line. One goroutine owns it.
type waiter struct {
	backend *Backend
	seat    *seat
	ttl     time.Duration
	kept    election.Instant // when the last good renewal was sent
	sure    election.Instant // the same, of the last one that a quorum has followed
	refused int              // how often the free key could not be locked, in a row
	warming warming
}

// scene is what a waiter sees: the lock, the line, and where it stands in it,
// -1 if nowhere.
type scene struct {
	lock *api.KVPair
	line []ticket
	at   int
}

// awaitTurn returns when the claim leads, and when it cannot stay in line.
// While the servers cannot be asked it stays for a lease: they may keep it.
func (w *waiter) awaitTurn(ctx context.Context) (election.Grant, error) {
	good := election.Now()
	for {
		now, err := w.look(ctx)
		token := election.Token(0)
		if err == nil {
			token, err = w.tryLock(ctx, now)
		}
		if err == nil && token != 0 {
			w.warming.finish(w.ttl / 4)
			if err = w.keep(ctx); err == nil {
				var grant election.Grant
				if grant, err = w.backend.takeUp(ctx, w.seat, token, w.kept, w.ttl); err == nil {
					return grant, nil
				}
			}
		}
		switch {
		case ctx.Err() != nil:
			return election.Grant{}, context.Cause(ctx)
		case err == nil:
			good = election.Now()
			w.await(ctx, now)
		case final(err) || election.Now().Sub(good) > w.ttl:
			return election.Grant{}, err
		default:
			sleep(ctx, retryPause)
		}
	}
}

// final says whether trying again is of no use to this claim.
func final(err error) bool {
	err = mark(err)
	return errors.Is(err, election.ErrLost) || errors.Is(err, election.ErrPermanent)
}

// look keeps the session alive if it is time, and finds the candidate's place.
// A candidate whose ticket was deleted, while its session lives, goes to the
// end of the line; one whose session has ended is told.
func (w *waiter) look(ctx context.Context) (scene, error) {
	ctx, cancel := context.WithTimeout(ctx, max(w.ttl/2, retryPause))
	defer cancel()
	if election.Now() >= w.due() {
		if err := w.keep(ctx); err != nil {
			return scene{}, err
		}
	}
	now, err := w.backend.scene(ctx, w.seat)
	if err == nil {
		w.sure = w.kept
	}
	if err != nil || now.at >= 0 || now.lock.Session == w.seat.sessionID() {
		return now, err
	}
	if err := w.keep(ctx); err != nil {
		return scene{}, err
	}
	if err := w.backend.enter(ctx, w.seat); err != nil {
		return scene{}, err
	}
	return w.backend.scene(ctx, w.seat)
}

func (w *waiter) due() election.Instant { return w.kept.Add(w.ttl / 3) }

// keep renews the session, unless it comes too late to be believed (C3).
func (w *waiter) keep(ctx context.Context) error {
	if election.Now().Sub(w.sure) > w.ttl*3/4 {
		return errPaused
	}
	sent, ttl, err := w.backend.keepAlive(ctx, w.seat)
	if err == nil {
		w.kept, w.ttl = sent, ttl
	}
	return err
}

// errPaused ends a claim whose process was frozen, or cut off, for too long.
var errPaused = fmt.Errorf("%w: its session was not renewed in time", election.ErrLost)

// tryLock returns the token if the key is locked by this candidate: by itself,
// being the first in line and the key free, or by a holder that handed it over.
// Zero without an error: not yet.
func (w *waiter) tryLock(ctx context.Context, now scene) (election.Token, error) {
	s := w.seat
	switch {
	case now.lock.Session == s.sessionID():
		return election.Token(now.lock.ModifyIndex), nil // also after an answer was lost
	case now.lock.ModifyIndex != 0 && now.lock.Flags != api.LockFlagValue:
		return 0, election.Permanent(fmt.Errorf("key %q is in use for something else: its flags are %#x, "+
			"those of a lock %#x; choose another name", s.lock, now.lock.Flags, uint64(api.LockFlagValue)))
	case now.at != 0 || now.lock.Session != "":
		return 0, nil
	}
	value := holder{ID: s.claim.ID, Since: time.Now().UTC()}.encode()
	results, failed, err := w.backend.transact(ctx,
		&api.KVTxnOp{Verb: api.KVLock, Key: s.lock, Value: value, Flags: api.LockFlagValue, Session: s.sessionID()},
		&api.KVTxnOp{Verb: api.KVDelete, Key: s.ticket})
	if err != nil {
		return 0, err
	}
	if failed >= 0 {
		// "consul lock" was faster, or there is a lock-delay, or the session
		// has ended: the next look tells.
		sleep(ctx, min(refusedPause<<w.refused, refusedPauseMax))
		w.refused = min(w.refused+1, 10)
		return 0, nil
	}
	return election.Token(results[0].ModifyIndex), nil
}

// The pause after a free key could not be locked doubles: a lock-delay may be
// of a millisecond, as ours, or of 15 seconds, as that of "consul lock".
const (
	refusedPause    = 2 * time.Millisecond
	refusedPauseMax = 500 * time.Millisecond
)

// await returns when there is a reason to look again (C5).
func (w *waiter) await(ctx context.Context, now scene) {
	limit := w.due().Sub(election.Now())
	if now.at < 0 {
		return
	}
	own := now.line[now.at]
	w.warm(ctx, own)
	mine := watched{own.key, own.modified}
	free := now.lock.Session == ""
	if !free {
		w.refused = 0
	}
	key := watched{now.lock.Key, now.lock.ModifyIndex}
	switch {
	case now.at == 0 && free:
		return
	case now.at == 0:
		w.backend.await(ctx, limit, mine, key)
	case own.Round != "" && !free:
		before := now.line[now.at-1]
		w.backend.await(ctx, limit, mine, key, watched{before.key, before.modified})
	default:
		before := now.line[now.at-1]
		w.backend.await(ctx, limit, watched{before.key, before.modified})
	}
}

// scene reads the lock and the line by quorum.
func (b *Backend) scene(ctx context.Context, s *seat) (scene, error) {
	results, _, err := b.consult(ctx,
		&api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: s.lock},
		&api.KVTxnOp{Verb: api.KVGetTree, Key: b.lineKeys(s.claim.Election)})
	if err != nil {
		return scene{}, err
	}
	now := scene{lock: results[0], line: line(results[1:])}
	now.at = slices.IndexFunc(now.line, func(t ticket) bool { return t.key == s.ticket })
	return now, nil
}

// line returns the candidates in their order: as they came.
func line(pairs []*api.KVPair) []ticket {
	pairs = slices.SortedFunc(slices.Values(pairs), func(a, b *api.KVPair) int {
		return int(int64(a.CreateIndex) - int64(b.CreateIndex))
	})
	tickets := make([]ticket, len(pairs))
	for i, pair := range pairs {
		tickets[i] = decodeTicket(pair)
	}
	return tickets
}

// transact has a quorum decide writes; failed is the operation that did not
// hold, -1 for none.
func (b *Backend) transact(ctx context.Context, ops ...*api.KVTxnOp) (results []*api.KVPair, failed int, err error) {
	return b.txn(ctx, &api.QueryOptions{}, ops)
}

// consult reads by quorum.
func (b *Backend) consult(ctx context.Context, ops ...*api.KVTxnOp) (results []*api.KVPair, failed int, err error) {
	return b.txn(ctx, &api.QueryOptions{RequireConsistent: true}, ops)
}

// crossed says whether a request has failed only because another one was given
// up at the same moment: net/http may put a connection to new use just before
// it closes it for the old request's sake. All requests that are repeated for
// it may be carried out twice.
func crossed(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) && ctx.Err() == nil
}

func (b *Backend) txn(ctx context.Context, options *api.QueryOptions, ops api.KVTxnOps) ([]*api.KVPair, int, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	done, answer, _, err := b.client.KV().Txn(ops, options.WithContext(ctx))
	if crossed(ctx, err) {
		done, answer, _, err = b.client.KV().Txn(ops, options.WithContext(ctx))
	}
	switch {
	case err != nil:
		return nil, 0, err
	case done:
		return answer.Results, -1, nil
	case len(answer.Errors) == 0:
		return nil, 0, errors.New("a transaction was rolled back without a reason")
	case strings.Contains(answer.Errors[0].What, denied):
		return nil, 0, errors.New(answer.Errors[0].What)
	}
	return nil, answer.Errors[0].OpIndex, nil
}

// errNoSession says that the session has ended, and the lock with it.
var errNoSession = fmt.Errorf("%w: the session has ended", election.ErrLost)

// keepAlive renews the session. It returns the instant before it asked, from
// which on the session lives for the time beside it (C3).
func (b *Backend) keepAlive(ctx context.Context, s *seat) (election.Instant, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	sent := election.Now()
	options := (&api.WriteOptions{}).WithContext(ctx)
	entry, _, err := b.client.Session().Renew(s.sessionID(), options)
	if crossed(ctx, err) {
		entry, _, err = b.client.Session().Renew(s.sessionID(), options)
	}
	if err != nil {
		return 0, 0, err
	}
	if entry == nil {
		return 0, 0, errNoSession
	}
	ttl, err := time.ParseDuration(entry.TTL)
	if err != nil {
		return 0, 0, fmt.Errorf("the session's TTL is %q: %w", entry.TTL, err)
	}
	return sent, ttl, nil
}
