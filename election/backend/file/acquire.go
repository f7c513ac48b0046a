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
	// hurryMin is the first pause after a sign that the lock may be free: the
	// kernel reports a closed file a moment before it unlocks it.
	hurryMin = 2 * time.Millisecond
	// turnMax is for how long a lock that may be free is left to a candidate
	// that waits ahead, and a free one to a nominee: enough to wake up on a busy
	// machine, and not for ever, for it may be frozen.
	turnMax = 500 * time.Millisecond
	// draftAge is after how long a half-written file is taken for abandoned.
	draftAge = time.Minute
)

// wallNow is the wall clock: for people, and to tell old drafts from new.
func wallNow() time.Time { return time.Now() }

// candidate waits with its entry in the queue, and leads with the lock, open and held.
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

	courtesy courtesy // of the goroutine that waits
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
		return election.Grant{}, err // better told now than after a long wait
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

// wait tries the lock, and again whenever something happens in the directory, each
// time after those that are ahead.
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
			// Not later than it was to be: there may be no end of signs.
			tryAt, pause = min(tryAt, b.clock.Now().Add(s.turn())), hurryMin
		case <-timer.C():
			if pause >= patienceBlind { // else the directory may just be being removed
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

// turn is how long to leave the lock to others.
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

// try opens the lock of the directory, if it is not open already, and tries to
// take it.
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
	// It may have been replaced between the look and the lock.
	return same(s.lock, s.place.path(lockFile)), nil
}

// take turns the lock into a grant: the next token, stored.
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
	last := max(old.token, p.lastInHistory()) // the state may have been put back from a copy
	if last >= math.MaxInt64 {                // as for all backends
		return election.Grant{}, election.Permanent(fmt.Errorf("file: election %q: no token is left", p.name))
	}
	next := state{election: p.name, token: last + 1, leader: claim.ID, nonce: claim.Nonce,
		lockID: id, lease: claim.Lease, since: wallNow()}
	if old.token == 0 { // file-F5
		next.token = max(next.token, election.Token(max(1, next.since.UnixMilli())))
		if err := b.waitOut(ctx, time.Millisecond); err != nil { // nobody else has this millisecond
			return election.Grant{}, err
		}
	}
	if err := p.writeState(s.lock, next); err != nil {
		return election.Grant{}, err
	}
	sent := b.clock.Now() // before the look: the one that replaces the lock file later waits from then on
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

// lastInHistory returns the greatest token of which the history tells that it was given
// out, zero for none: the state may be lost, damaged, or older than that.
func (p place) lastInHistory() (last election.Token) {
	for _, tenure := range p.readHistory() {
		if tenure.Token < math.MaxInt64 {
			last = max(last, tenure.Token)
		}
	}
	return last
}

// waitOut waits for a time: until a holder whose lock file was taken away has
// noticed (file-F4). Where the files' numbers have changed, as they may with a restart
// of the machine, or the state is an older version's, it waits for nobody, once.
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

// guard tells the holder at once when its lock file is taken away, and when an
// operator asks for something.
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

// leave ends the candidacy: the entry first, so that an observer does not see a
// leader that has gone.
func (s *candidate) leave() {
	s.once.Do(func() {
		s.warmth.mu.Lock() // nothing is written about it from now on
		close(s.left)
		s.warmth.mu.Unlock()
		s.worker.Wait()
		s.entry.leave()
		if s.lock != nil {
			_ = s.lock.Close()
		}
	})
}
