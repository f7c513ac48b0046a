package consul

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/ledger"
)

// Release unlocks the key, or hands it over to the nominee, and then ends the
// session, which takes away whatever there is of the claim. A session that
// cannot be ended does so by itself: nobody renews it any more.
//
// Without a session, because the answer to its creation was lost, it is looked
// for by its name. It holds nothing.
func (b *Backend) Release(ctx context.Context, grant election.Grant) error {
	s := b.seat(grant.Claim.Nonce)
	if s == nil {
		return nil // nothing was ever sent for it
	}
	s.leave()
	if err := b.release(ctx, s, grant.Ended); err != nil {
		b.leftLate(s)
		return fmt.Errorf("consul: release in election %q: %w", grant.Claim.Election, mark(err))
	}
	b.forget(grant.Claim.Nonce)
	return nil
}

func (b *Backend) release(ctx context.Context, s *seat, reason election.Reason) error {
	session := s.sessionID()
	if session == "" {
		var err error
		if session, err = b.findSession(ctx, s); session == "" {
			return err
		}
	} else if err := b.giveUp(ctx, s, session, reason); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	options := (&api.WriteOptions{}).WithContext(ctx)
	_, err := b.client.Session().Destroy(session, options)
	if crossed(ctx, err) {
		_, err = b.client.Session().Destroy(session, options)
	}
	return err
}

// giveUp frees the key if the session holds it. Ending the session would do so
// as well, but with the lock-delay.
func (b *Backend) giveUp(ctx context.Context, s *seat, session string, reason election.Reason) error {
	s.mu.Lock()
	granted, token, h, nominee := s.granted, s.token, s.history, s.nominee
	s.mu.Unlock()
	unlock := &api.KVTxnOp{Verb: api.KVUnlock, Key: s.lock, Flags: api.LockFlagValue, Session: session}
	name := s.claim.Election
	if granted {
		note := b.write(name, h.index, ledger.End(h.changes, token, reason, time.Now().UTC()))
		if nominee != nil {
			_, failed, err := b.transact(ctx, append(handOver(s, nominee, unlock), note)...)
			if err != nil || failed < 0 {
				return err
			}
		}
		_, failed, err := b.transact(ctx, unlock, note)
		if err != nil || failed < 0 {
			return err
		}
	}
	_, failed, err := b.transact(ctx, unlock)
	if err == nil && failed >= 0 && granted {
		b.note(ctx, name, token, reason) // it was lost, and others have led since
	}
	return err
}

// handOver moves the lock from one session to another (C6), if the nominee is
// still in line.
func handOver(s *seat, to *ticket, unlock *api.KVTxnOp) []*api.KVTxnOp {
	return []*api.KVTxnOp{
		{Verb: api.KVCheckSession, Key: to.key, Session: to.session},
		unlock,
		{Verb: api.KVLock, Key: s.lock, Flags: api.LockFlagValue, Session: to.session,
			Value: holder{ID: to.ID, Since: time.Now().UTC()}.encode()},
		{Verb: api.KVDelete, Key: to.key},
	}
}

// note writes why a leadership has ended that is not the present one. Its
// errors do not matter.
func (b *Backend) note(ctx context.Context, name string, token election.Token, reason election.Reason) {
	h, err := b.readHistory(ctx, name)
	if c, found := ledger.Find(h.changes, token); err != nil || !found || c.Reason != "" && c.Reason != ledger.Expired {
		return
	}
	_, _, _ = b.transact(ctx, b.write(name, h.index, ledger.End(h.changes, token, reason, time.Now().UTC())))
}

// findSession returns the session of a claim by its name, empty for none.
func (b *Backend) findSession(ctx context.Context, s *seat) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	options := (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	all, _, err := b.client.Session().List(options)
	for _, entry := range all {
		if entry.Name == sessionName(s.claim.Nonce) {
			return entry.ID, nil
		}
	}
	return "", err
}
