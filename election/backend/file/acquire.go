package file

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/conclave-project/conclave/election"
)

const (
	// hurryMin is the first pause after a notice that the lock may be free: the kernel
	// reports a closed file a moment before it unlocks it.
	hurryMin = 2 * time.Millisecond
	// turnMax is how long a lock that may be free is left to a candidate further ahead in
	// the queue, and a free one to a nominee: long enough to wake up on a busy machine, but
	// not for ever, because that candidate may be frozen.
	turnMax = 500 * time.Millisecond
	// draftAge is the age at which a half-written file counts as abandoned.
	draftAge = time.Minute
)

// wallNow returns the wall clock, which is for people and for the age of drafts.
func wallNow() time.Time { return time.Now() }

// candidate is one call of Acquire: while it waits it has an entry in the queue, and while
// it leads it holds the open lock.
type candidate struct {
	place  place
	claim  election.Claim
	lock   *os.File
	entry  *entry
	lost   chan struct{}
	news   chan struct{}
	left   chan struct{}
	once   sync.Once
	worker sync.WaitGroup
	warmth warmth

	courtesy courtesy // the waiting goroutine owns it
}

// Acquire waits for the lock, then stores the next token.
func (b *Backend) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	p, err := b.place(claim.Election)
	if err != nil {
		return election.Grant{}, err
	}
	if err := p.prepare(); err != nil {
		return election.Grant{}, err
	}
	if _, err := p.readState(); err != nil {
		return election.Grant{}, err // better reported now than after a long wait
	}
	mine, err := p.join(claim)
	if err != nil {
		return election.Grant{}, err
	}
	s := &candidate{place: p, claim: claim, entry: mine, news: make(chan struct{}, 1), lost: make(chan struct{}), left: make(chan struct{})}
	grant, err := b.wait(ctx, s, claim)
	if err != nil {
		s.leave()
		return election.Grant{}, err
	}
	return grant, nil
}

// wait tries the lock now, and again after each change in the directory, but leaves it
// first to the candidates that are ahead.
func (b *Backend) wait(ctx context.Context, s *candidate, claim election.Claim) (election.Grant, error) {
	signs := b.watch(s.place.dir)
	defer signs.stop()
	tryAt, pause := b.clock.Now().Add(s.turn()), hurryMin
	for {
		timer := b.clock.Timer(tryAt)
		select {
		case <-ctx.Done():
			timer.Stop()
			return election.Grant{}, context.Cause(ctx)
		case <-signs.seen:
			// Never postpone the next attempt: there may be an endless series of notices.
			tryAt, pause = min(tryAt, b.clock.Now().Add(s.turn())), hurryMin
		case <-timer.C():
			if pause >= patienceBlind { // the directory may just be being removed
				s.keepEntry()
			}
			if held, err := s.tryInTurn(); err != nil || held {
				return b.takeIf(ctx, s, claim, err)
			}
			tryAt = b.clock.Now().Add(max(pause, s.turn()))
			pause = min(pause*2, signs.patience())
		}
		timer.Stop()
	}
}

// turn returns how long to leave the lock to other candidates.
func (s *candidate) turn() time.Duration {
	if s.isNominee() || !s.place.livesAhead(s.entry) {
		return 0
	}
	return turnMax
}

func (b *Backend) takeIf(ctx context.Context, s *candidate, claim election.Claim, err error,
) (election.Grant, error) {
	if err != nil {
		return election.Grant{}, err
	}
	return b.take(ctx, s, claim)
}

// try opens the lock file of the directory, unless it is already open, and tries to lock
// it.
func (s *candidate) try() (bool, error) {
	if s.lock != nil && !same(s.lock, s.place.path(lockFile)) {
		_ = s.lock.Close()
		s.lock = nil
	}
	if s.lock == nil {
		lock, err := s.place.openLock()
		if err != nil {
			return false, err
		}
		s.lock = lock
	}
	held, err := tryLock(s.lock)
	if err != nil || !held {
		return false, err
	}
	// The lock file may have been replaced between the check and the lock.
	return same(s.lock, s.place.path(lockFile)), nil
}

// take turns the lock into a grant: it stores the next token.
func (b *Backend) take(ctx context.Context, s *candidate, claim election.Claim) (election.Grant, error) {
	p := s.place
	if err := p.dropStates(); err != nil {
		return election.Grant{}, err
	}
	old, err := p.readState()
	if err != nil {
		return election.Grant{}, err
	}
	id, err := lockID(s.lock)
	if err != nil {
		return election.Grant{}, err
	}
	if old.token > 0 && old.lockID != id {
		if err := b.waitOut(ctx, old.lease); err != nil {
			return election.Grant{}, err
		}
	}
	last := max(old.token, p.lastInHistory()) // the state may have been restored from a copy
	if last >= math.MaxInt64 {                // the limit of all backends
		return election.Grant{}, election.Permanent(fmt.Errorf("file: election %q: no token is left", p.name))
	}
	next := state{election: p.name, token: last + 1, leader: claim.ID, nonce: claim.Nonce,
		lockID: id, lease: claim.Lease, since: wallNow()}
	if old.token == 0 { // file-F5
		next.token = max(next.token, election.Token(max(1, next.since.UnixMilli())))
		if err := b.waitOut(ctx, time.Millisecond); err != nil { // so no other candidate has this millisecond
			return election.Grant{}, err
		}
	}
	if err := p.writeState(s.lock, next); err != nil {
		return election.Grant{}, err
	}
	sent := b.clock.Now() // before the check: a candidate that replaces the lock file after it waits from then on
	if !s.holds() {
		return election.Grant{}, p.replaced()
	}
	p.beginTenure(next)
	p.sweep(next.token)
	s.worker.Go(func() { b.guard(s, next.token) })
	b.mu.Lock()
	b.holders[claim.Nonce] = s
	b.mu.Unlock()
	return election.Grant{Claim: claim, Token: next.token, Sent: sent, Lease: claim.Lease,
		Lost: s.lost, News: s.news, Files: []*os.File{s.lock}}, nil
}

// lastInHistory returns the highest token in the history, zero for none: the state may be
// lost, damaged or older than that.
func (p place) lastInHistory() (last election.Token) {
	for _, tenure := range p.readHistory() {
		if tenure.Token < math.MaxInt64 {
			last = max(last, tenure.Token)
		}
	}
	return last
}

// waitOut waits until the holder of a removed lock file must have noticed the removal
// (file-F4). If the files' numbers have changed, which a restart of the machine can cause,
// or if an older version wrote the state, it waits once although there may be no such
// holder.
func (b *Backend) waitOut(ctx context.Context, lease time.Duration) error {
	timer := b.clock.Timer(b.clock.Now().Add(lease))
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// gone reports whether the candidate has left.
func (s *candidate) gone() bool {
	select {
	case <-s.left:
		return true
	default:
		return false
	}
}

// holds reports whether the lock of this candidate is the one in the directory.
func (s *candidate) holds() bool { return same(s.lock, s.place.path(lockFile)) }

// guard tells the holder at once if its lock file is removed, or if an operator requests
// something.
func (b *Backend) guard(s *candidate, token election.Token) {
	signs := b.watch(s.place.dir)
	defer signs.stop()
	s.keepEntry()
	for {
		if !s.holds() {
			close(s.lost)
			return
		}
		if exists(s.place.path(requestFile(token))) {
			s.tellNews()
		}
		select {
		case <-signs.seen:
		case <-time.After(signs.patience()):
			s.keepEntry()
		case <-s.left:
			return
		}
	}
}

// leave ends the candidacy. It removes the entry first, so that observers do not see a
// leader that has gone.
func (s *candidate) leave() {
	s.once.Do(func() {
		s.warmth.mu.Lock() // from now on no answer is written
		close(s.left)
		s.warmth.mu.Unlock()
		s.worker.Wait()
		s.entry.leave()
		if s.lock != nil {
			_ = s.lock.Close()
		}
	})
}
