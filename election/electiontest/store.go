package electiontest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/clock"
)

// Store is a store of leases in memory, the plainest correct backend: the
// reference for the suite, and a backend for tests of programs that elect. It
// gives a lease to the next in line as soon as it has run out.
type Store struct {
	clock clock.Clock

	mu        sync.Mutex
	elections map[string]*lease
	changed   chan struct{}
}

// lease is one election in a Store.
type lease struct {
	holder  election.Claim // zero Nonce: nobody
	token   election.Token
	expires election.Instant
	since   time.Time
	line    []election.Claim
}

// NewStore returns an empty store that counts on the given clock, nil being
// that of this machine.
func NewStore(c clock.Clock) *Store {
	if c == nil {
		c = clock.System()
	}
	return &Store{clock: c, elections: make(map[string]*lease), changed: make(chan struct{})}
}

// Traits says: exclusive, with expiry.
func (s *Store) Traits() election.Traits {
	return election.Traits{Name: "memory", Exclusive: true, Expires: true, LeaseMin: 10 * time.Millisecond}
}

// at returns the election, after what has run out has been taken away.
func (s *Store) at(name string) *lease {
	l := s.elections[name]
	if l == nil {
		l = &lease{}
		s.elections[name] = l
	}
	if l.holder.Nonce != "" && s.clock.Now() >= l.expires {
		l.holder = election.Claim{}
		s.tell()
	}
	return l
}

func (s *Store) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Acquire waits in line.
func (s *Store) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.at(claim.Election)
	l.line = append(l.line, claim)
	s.tell()
	for {
		if l := s.at(claim.Election); l.holder.Nonce == "" && l.line[0].Nonce == claim.Nonce {
			l.line = l.line[1:]
			l.holder, l.token, l.since = claim, l.token+1, time.Now()
			sent := s.clock.Now()
			l.expires = sent.Add(claim.Lease)
			s.tell()
			return election.Grant{Claim: claim, Token: l.token, Sent: sent, Lease: claim.Lease}, nil
		}
		if err := s.wait(ctx, s.at(claim.Election), s.changed); err != nil {
			l.line = slices.DeleteFunc(l.line, func(c election.Claim) bool { return c.Nonce == claim.Nonce })
			s.tell()
			return election.Grant{}, err
		}
	}
}

// wait lets go of the mutex until something changes or the lease runs out.
func (s *Store) wait(ctx context.Context, l *lease, changed <-chan struct{}) error {
	var expired <-chan struct{}
	if l.holder.Nonce != "" {
		timer := s.clock.Timer(l.expires)
		defer timer.Stop()
		expired = timer.C()
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
	case <-expired:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Renew makes the lease begin anew.
func (s *Store) Renew(_ context.Context, grant election.Grant) (election.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.at(grant.Claim.Election)
	if l.holder.Nonce != grant.Claim.Nonce {
		return grant, fmt.Errorf("memory: renew: %w", election.ErrLost)
	}
	grant.Sent = s.clock.Now()
	l.expires = grant.Sent.Add(grant.Lease)
	return grant, nil
}

// Release takes the claim out, wherever it is.
func (s *Store) Release(_ context.Context, grant election.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.at(grant.Claim.Election)
	if l.holder.Nonce == grant.Claim.Nonce {
		l.holder = election.Claim{}
		s.tell()
	}
	return nil
}

// Take takes the election away from whoever leads, as an operator would.
func (s *Store) Take(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at(name).holder = election.Claim{}
	s.tell()
}

// Observe yields the view whenever it has changed.
func (s *Store) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		var last election.View
		for first := true; ; first = false {
			s.mu.Lock()
			view := s.at(name).view(name)
			changed := s.changed
			s.mu.Unlock()
			if (first || !sameView(view, last)) && !yield(view, nil) {
				return
			}
			last = view
			s.mu.Lock()
			err := s.wait(ctx, s.at(name), changed)
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}
}

func (l *lease) view(name string) election.View {
	view := election.View{Election: name, Leader: l.holder.ID, Token: l.token}
	if l.holder.Nonce != "" {
		view.Since = l.since
	}
	for _, claim := range l.line {
		view.Candidates = append(view.Candidates, claim.ID)
	}
	return view
}

func sameView(a, b election.View) bool {
	return a.Leader == b.Leader && a.Token == b.Token && slices.Equal(a.Candidates, b.Candidates)
}
