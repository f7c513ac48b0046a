package electiontest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Store is a store of leases in memory, the simplest correct backend: the reference for the suite,
// and a backend for tests of programs that elect. When a lease expires, the store grants the
// election at once to the successor, or to the candidate that the holder has nominated.
type Store struct {
	clock clock.Clock

	mu        sync.Mutex
	elections map[string]*lease
	changed   chan struct{}
}

// lease is one election in a Store.
type lease struct {
	holder  election.Claim // an empty Nonce means nobody
	token   election.Token
	expires clock.Instant
	since   time.Time
	queue   []election.Claim // first come, first served
	nominee nominee
	request *election.Request
	history []election.Tenure
	news    chan struct{} // to the holder
}

// nominee is the candidate that the holder has chosen.
type nominee struct {
	nonce  string // empty: nobody
	warmed bool   // Warm has returned
	err    error  // what it returned
}

// NewStore returns an empty store that uses the given clock; nil is the clock of this machine.
func NewStore(c clock.Clock) *Store {
	if c == nil {
		c = clock.System()
	}
	return &Store{clock: c, elections: make(map[string]*lease), changed: make(chan struct{})}
}

// Traits returns the store's traits: exclusive, with expiry and a queue.
func (s *Store) Traits() election.Traits {
	return election.Traits{Name: "memory", Exclusive: true, Expires: true, Waiters: true, LeaseMin: 10 * time.Millisecond,
		Guarantees: election.Guarantees{
			Failover: "none: it lives in one process",
			Clocks:   "one clock",
			Token:    "a counter; back to 1 with a new Store",
			Renewal:  "a mutex", Waiting: "a goroutine", Notice: "watch",
		}}
}

// at returns the election, after removing what has expired.
func (s *Store) at(name string) *lease {
	l := s.elections[name]
	if l == nil {
		l = &lease{}
		s.elections[name] = l
	}
	if l.holder.Nonce != "" && s.clock.Now() >= l.expires {
		s.vacate(l, election.ReasonExpired)
	}
	return l
}

func (s *Store) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// vacate ends the leadership of the holder.
func (s *Store) vacate(l *lease, reason election.Reason) {
	l.holder, l.request, l.news = election.Claim{}, nil, nil
	if !l.nominee.warmed || l.nominee.err != nil {
		l.nominee = nominee{}
	}
	last := &l.history[len(l.history)-1]
	last.Until, last.Reason = time.Now(), reason.String()
	s.tell()
}

// next returns the nonce of the claim to which the grant is due.
func (l *lease) next() string {
	if l.nominee.warmed && slices.ContainsFunc(l.queue, isClaim(l.nominee.nonce)) {
		return l.nominee.nonce
	}
	return l.queue[0].Nonce
}

func isClaim(nonce string) func(election.Claim) bool {
	return func(c election.Claim) bool { return c.Nonce == nonce }
}

// errReleased ends an Acquire whose claim was released in the meantime.
var errReleased = errors.New("the claim was released while it waited")

// Acquire waits until the claim is granted.
func (s *Store) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.at(claim.Election)
	l.queue = append(l.queue, claim)
	if l.holder.Nonce != "" && claim.Priority > l.holder.Priority {
		l.inform()
	}
	s.tell()
	for {
		l := s.at(claim.Election)
		if !slices.ContainsFunc(l.queue, isClaim(claim.Nonce)) {
			return election.Grant{}, errReleased
		}
		if l.holder.Nonce == "" && l.next() == claim.Nonce {
			return s.grant(l, claim), nil
		}
		if err := s.wait(ctx, s.at(claim.Election), s.changed); err != nil {
			s.leave(s.at(claim.Election), claim.Nonce)
			return election.Grant{}, err
		}
	}
}

// grant makes the first waiter the holder.
func (s *Store) grant(l *lease, claim election.Claim) election.Grant {
	l.queue = slices.DeleteFunc(l.queue, isClaim(claim.Nonce))
	l.holder, l.nominee, l.since = claim, nominee{}, time.Now()
	l.token++
	l.news = make(chan struct{}, 1)
	l.history = append(l.history, election.Tenure{Leader: claim.ID, Token: l.token, Since: l.since})
	l.history = l.history[max(0, len(l.history)-2*election.HistoryMin):]
	sent := s.clock.Now()
	l.expires = sent.Add(claim.Lease)
	s.tell()
	return election.Grant{Claim: claim, Token: l.token, Sent: sent, Lease: claim.Lease, News: l.news, Rival: l.rival()}
}

// leave takes a claim out of the queue.
func (s *Store) leave(l *lease, nonce string) {
	l.queue = slices.DeleteFunc(l.queue, isClaim(nonce))
	if l.nominee.nonce == nonce {
		l.nominee = nominee{}
	}
	s.tell()
}

// inform tells the holder that there is news.
func (l *lease) inform() {
	select {
	case l.news <- struct{}{}:
	default: // it has already been informed
	}
}

// rival returns the id of the highest priority above that of the holder.
func (l *lease) rival() string {
	best := l.holder
	for _, claim := range l.queue {
		if claim.Priority > best.Priority {
			best = claim
		}
	}
	if best.Nonce == l.holder.Nonce {
		return ""
	}
	return best.ID
}

// wait releases the mutex until something changes or the lease runs out.
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

// held returns the election if the grant still holds.
func (s *Store) held(grant election.Grant) (*lease, error) {
	l := s.at(grant.Claim.Election)
	if l.holder.Nonce != grant.Claim.Nonce {
		return l, fmt.Errorf("memory: election %q: %w", grant.Claim.Election, election.ErrLost)
	}
	return l, nil
}

// Renew restarts the lease.
func (s *Store) Renew(_ context.Context, grant election.Grant) (election.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.held(grant)
	if err != nil {
		return grant, err
	}
	grant.Sent = s.clock.Now()
	grant.Rival, grant.Request = l.rival(), l.request
	l.expires = grant.Sent.Add(grant.Lease)
	return grant, nil
}

// Release removes the claim, wherever it is.
func (s *Store) Release(_ context.Context, grant election.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.held(grant)
	if err != nil {
		s.leave(l, grant.Claim.Nonce)
		return nil
	}
	s.vacate(l, grant.Ended)
	return nil
}

// Nominate lets the candidate warm up in a goroutine of the call.
func (s *Store) Nominate(ctx context.Context, grant election.Grant, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.held(grant)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(l.queue, func(c election.Claim) bool { return c.ID == id })
	if at < 0 {
		return fmt.Errorf("memory: nominate %q: %w", id, election.ErrNoCandidate)
	}
	claim := l.queue[at]
	l.nominee = nominee{nonce: claim.Nonce}
	warming, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.warm(warming, l, claim)
	for {
		changed := s.changed
		switch {
		case l.nominee.nonce != claim.Nonce:
			return fmt.Errorf("memory: nominate %q: it does not wait any more: %w", id, election.ErrNoCandidate)
		case l.nominee.warmed:
			return l.nominee.err
		}
		if err := s.wait(ctx, l, changed); err != nil {
			return err
		}
		if _, err := s.held(grant); err != nil {
			return err
		}
	}
}

// warm lets a nominee warm up and records the outcome.
func (s *Store) warm(ctx context.Context, l *lease, claim election.Claim) {
	var err error
	if claim.Warm != nil {
		err = claim.Warm(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.nominee.nonce == claim.Nonce {
		l.nominee.warmed, l.nominee.err = true, err
		s.tell()
	}
}

// Elections returns the names of all elections that ever had a leader.
func (s *Store) Elections(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.elections))
	return slices.DeleteFunc(names, func(name string) bool { return s.elections[name].token == 0 }), nil
}

// History returns the leaderships that are remembered.
func (s *Store) History(_ context.Context, name string) ([]election.Tenure, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at(name).history), nil
}

// Ask leaves a request for the leader, which is informed at once.
func (s *Store) Ask(_ context.Context, name string, request election.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.at(name)
	if l.holder.Nonce == "" || request.Token != 0 && request.Token != l.token {
		return fmt.Errorf("memory: election %q: %w", name, election.ErrNoLeader)
	}
	request = request.WithID()
	l.request = &request
	l.inform()
	return nil
}

// Take takes the election away from the leader, as an operator would.
func (s *Store) Take(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.at(name); l.holder.Nonce != "" {
		s.vacate(l, election.ReasonTaken)
	}
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
			if (first || !view.Equal(last)) && !yield(view, nil) {
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
	view := election.View{Election: name, Leader: l.holder.ID, Token: l.token, Metadata: l.holder.Metadata}
	if l.holder.Nonce != "" {
		view.Since = l.since
	}
	for _, claim := range l.queue {
		view.Waiters = append(view.Waiters, election.Waiter{ID: claim.ID, Metadata: claim.Metadata})
	}
	return view
}

// Len returns how many claims are held or waiting, over all elections.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for _, l := range s.elections {
		count += len(l.queue)
		if l.holder.Nonce != "" {
			count++
		}
	}
	return count
}
