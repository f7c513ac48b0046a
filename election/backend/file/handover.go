package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// rival returns the waiter with the highest priority above the leader's.
func (s *candidate) rival() string {
	living, err := s.place.waiters()
	if err != nil {
		return ""
	}
	best, highest := "", s.claim.Priority
	for _, w := range living {
		if w.priority > highest {
			best, highest = w.id, w.priority
		}
	}
	return best
}

// Nominate writes who is to lead next, and waits until that candidate has written that it is
// ready. The others leave the lock to it for a while.
func (b *Backend) Nominate(ctx context.Context, grant election.Grant, id string) error {
	s := b.holder(grant.Claim)
	if s == nil {
		return fmt.Errorf("file: hand over %q: %w: released", grant.Claim.Election, election.ErrLost)
	}
	err := b.nominate(ctx, s, id)
	if err != nil {
		s.place.forget(nextFile)
		return fmt.Errorf("file: hand over %q: %w", grant.Claim.Election, err)
	}
	return nil
}

func (b *Backend) nominate(ctx context.Context, s *candidate, id string) error {
	p := s.place
	signs := b.watch(p.dir)
	defer signs.stop()
	nonce := ""
	for {
		living, err := p.waiters()
		if err != nil {
			return err
		}
		at := slices.IndexFunc(living, func(w waiter) bool {
			return w.id == id && w.nonce != s.claim.Nonce && (nonce == "" || w.nonce == nonce)
		})
		if at < 0 {
			return fmt.Errorf("%w: %q", election.ErrNoCandidate, id)
		}
		if nonce == "" {
			nonce = living[at].nonce
			p.forget(warmPrefix + nonce)
			if err := p.replace(nextFile, []byte(nonce)); err != nil {
				return explain("nominate", err)
			}
		}
		switch text, err := os.ReadFile(p.path(warmPrefix + nonce)); {
		case err == nil && string(text) == isReady:
			return nil
		case err == nil:
			return fmt.Errorf("%q could not warm up", id)
		case !errors.Is(err, fs.ErrNotExist):
			return explain("read how the candidate is", err)
		}
		if err := signs.await(ctx); err != nil {
			return err
		}
	}
}

// What a nominee writes.
const (
	isReady    = "ready"
	isNotReady = "cold"
)

// await returns after a change, or when its patience is over.
func (s *subscription) await(ctx context.Context) error {
	timer := time.NewTimer(s.patience())
	defer timer.Stop()
	select {
	case <-s.seen:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// tryInTurn tries the lock, unless it is left to a living nominee. If this candidate is the
// nominee, it warms up.
func (s *candidate) tryInTurn() (bool, error) {
	switch nominee := s.place.nominee(); {
	case nominee == "":
	case nominee == s.claim.Nonce:
		s.warmUp()
	case s.courtesy.to(nominee, s.place, s.place.backend.clock.Now()):
		return false, nil
	}
	return s.try()
}

// courtesy leaves a free lock to a nominee, which may be frozen, for turnMax after the lock
// was first seen free.
type courtesy struct {
	nominee string
	until   clock.Instant
}

// to reports whether the lock is to be left to a nominee.
func (c *courtesy) to(nominee string, p place, now clock.Instant) bool {
	living, err := p.waiters()
	if err != nil || !slices.ContainsFunc(living, func(w waiter) bool { return w.nonce == nominee }) {
		return false
	}
	switch {
	case !p.isFree():
		*c = courtesy{}
		return true
	case c.nominee != nominee:
		*c = courtesy{nominee, now.Add(turnMax)}
	}
	return now < c.until
}

// nominee returns the nonce of the candidate that the leader has chosen to lead
// next, empty for none.
func (p place) nominee() string {
	nonce, _ := os.ReadFile(p.path(nextFile))
	return string(nonce)
}

// isNominee reports whether the leader has chosen this candidate to lead next.
func (s *candidate) isNominee() bool { return s.place.nominee() == s.claim.Nonce }

// warmth is the progress of a nominee's warm-up.
type warmth struct {
	mu            sync.Mutex
	warming, warm bool
}

// warmUp begins the warm-up, unless it has already begun. The answer is a file.
func (s *candidate) warmUp() {
	w, answer := &s.warmth, warmPrefix+s.claim.Nonce
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.warming || exists(s.place.path(answer)) {
		return
	}
	w.warming = true
	go func() {
		state := isReady
		if !w.warm && s.warmNow() != nil {
			state = isNotReady
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.warming, w.warm = false, state == isReady
		if !s.gone() {
			_ = s.place.replace(answer, []byte(state))
		}
	}()
}

// warmNow warms up; the end of the candidate cancels it.
func (s *candidate) warmNow() error {
	if s.claim.Warm == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.left:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.claim.Warm(ctx)
}
