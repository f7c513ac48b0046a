package queue

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// memory is a Store in memory: the simplest correct one. Its queues are those of etcd: the
// entry that came first leads, and a holder sends those before its successor to the end.
type memory struct {
	mu     sync.Mutex
	queues map[string]*line
	last   uint64 // revision of the latest change
	still  bool   // nobody can be promoted
	now    func() clock.Instant
}

// line is one election.
type line struct {
	entries []*spot
	history History
	request election.Request
	changed chan struct{} // closed by the next change
}

// spot is an entry in the queue, or only a lease.
type spot struct {
	Candidate
	nomination Nomination
	lease      time.Duration
	until      clock.Instant
	renewals   int
}

func newMemory() *memory {
	return &memory{queues: make(map[string]*line), now: clock.Now}
}

var (
	errNoLease = errors.Join(election.ErrLost, errors.New("the lease has ended"))
	errNoEntry = errors.Join(election.ErrLost, errors.New("the entry is gone"))
)

func (m *memory) Traits() election.Traits {
	return election.Traits{Name: "queue in memory", LeaseMin: 10 * time.Millisecond,
		Guarantees: election.Guarantees{Notice: "watch"}}
}

func (m *memory) Mark(err error) error { return err }

// change lets a function look at an election, and reports a change if the function made one.
// Leases that have run out are removed first.
func (m *memory) change(name string, edit func(*line) (changed bool, err error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.at(name)
	before := len(q.entries)
	q.entries = slices.DeleteFunc(q.entries, func(s *spot) bool { return m.now() > s.until })
	m.last++
	changed, err := edit(q)
	if changed || len(q.entries) != before {
		close(q.changed)
		q.changed = make(chan struct{})
	}
	return err
}

// at returns an election. The mutex is held.
func (m *memory) at(name string) *line {
	q := m.queues[name]
	if q == nil {
		q = &line{changed: make(chan struct{})}
		m.queues[name] = q
	}
	return q
}

// await returns at the next change of an election, or after the limit. Leases run out by
// themselves.
func (m *memory) await(ctx context.Context, name string, limit time.Duration) {
	m.mu.Lock()
	q, now := m.at(name), m.now()
	changed := q.changed
	for _, s := range q.entries {
		limit = min(limit, max(0, s.until.Sub(now))*11/10+time.Millisecond)
	}
	m.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// queued returns the spots that are in the queue, in order.
func (q *line) queued() []*spot {
	in := slices.DeleteFunc(slices.Clone(q.entries), func(s *spot) bool { return s.Created == 0 })
	slices.SortFunc(in, func(a, b *spot) int { return int(a.Created) - int(b.Created) })
	return in
}

func (q *line) find(key string) *spot {
	for _, s := range q.entries {
		if s.Key == key {
			return s
		}
	}
	return nil
}

func (m *memory) Names(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.queues)), nil
}

func (m *memory) Ask(_ context.Context, name string, holder Holder, request election.Request) error {
	return m.change(name, func(q *line) (bool, error) {
		if in := q.queued(); len(in) == 0 || in[0].Key != holder.Key {
			return false, ErrConflict
		}
		q.request = request
		return true, nil
	})
}

type memoryObserver struct {
	*memory
	name string
}

func (m *memory) Observe(_ context.Context, name string) Observer { return memoryObserver{m, name} }

func (o memoryObserver) Look(context.Context, bool) (sight Sight, err error) {
	err = o.change(o.name, func(q *line) (bool, error) {
		sight.History = q.history.Tenures
		for i, s := range q.queued() {
			if i == 0 {
				sight.Holder = Holder{Candidate: s.Candidate, Token: election.Token(s.Created)}
			} else {
				sight.Waiting = append(sight.Waiting, s.Candidate)
			}
		}
		return false, nil
	})
	return sight, err
}

func (o memoryObserver) Wait(ctx context.Context) error {
	o.await(ctx, o.name, time.Second)
	return nil
}

// memoryEntry is one claim.
type memoryEntry struct {
	*memory
	claim election.Claim
}

func (m *memory) Entry(_ context.Context, claim election.Claim) Entry {
	return &memoryEntry{memory: m, claim: claim}
}

// own lets a function look at the election with the entry's own spot, which must be there.
func (e *memoryEntry) own(edit func(*line, *spot) (bool, error)) error {
	return e.change(e.claim.Election, func(q *line) (bool, error) {
		s := q.find(e.claim.Nonce)
		if s == nil {
			return false, errNoLease
		}
		return edit(q, s)
	})
}

// held is own for the holder.
func (e *memoryEntry) held(edit func(*line, []*spot) (bool, error)) error {
	return e.own(func(q *line, s *spot) (bool, error) {
		if in := q.queued(); len(in) > 0 && in[0] == s {
			return edit(q, in)
		}
		return false, errNoEntry
	})
}

func (e *memoryEntry) Create(context.Context) (Lease, error) {
	sent := e.now()
	err := e.change(e.claim.Election, func(q *line) (bool, error) {
		q.entries = append(q.entries, &spot{lease: e.claim.Lease, until: e.now().Add(e.claim.Lease),
			Candidate: Candidate{ID: e.claim.ID, Priority: e.claim.Priority, Metadata: e.claim.Metadata, Key: e.claim.Nonce}})
		return false, nil
	})
	return Lease{Sent: sent, Length: e.claim.Lease}, err
}

func (e *memoryEntry) Enter(context.Context) error {
	return e.own(func(_ *line, s *spot) (bool, error) {
		if s.Created == 0 {
			s.Created = e.last
		}
		return true, nil
	})
}

func (e *memoryEntry) Renew(context.Context) (Lease, error) {
	sent := e.now()
	err := e.own(func(_ *line, s *spot) (bool, error) {
		s.until = e.now().Add(s.lease)
		s.renewals++
		return false, nil // as with the watches of stores
	})
	return Lease{Sent: sent, Length: e.claim.Lease}, err
}

func (e *memoryEntry) Place(context.Context) (place Place, err error) {
	err = e.change(e.claim.Election, func(q *line) (bool, error) {
		s := q.find(e.claim.Nonce)
		if s == nil {
			return false, nil // as an entry that went without its lease
		}
		place.Nomination = s.nomination
		switch slices.Index(q.queued(), s) {
		case -1:
		case 0:
			place.Standing, place.Token = Head, election.Token(s.Created)
		default:
			place.Standing = Queued
		}
		return false, nil
	})
	return place, err
}

func (e *memoryEntry) Wait(ctx context.Context, limit time.Duration) error {
	e.await(ctx, e.claim.Election, limit)
	return nil
}

func (e *memoryEntry) Answer(_ context.Context, n Nomination) error {
	return e.own(func(_ *line, s *spot) (bool, error) {
		if s.nomination.Round == n.Round {
			s.nomination = n
			s.nomination.Version = e.last
		}
		return true, nil
	})
}

func (e *memoryEntry) Prove(_ context.Context, history *History) (proof Proof, err error) {
	err = e.held(func(q *line, in []*spot) (bool, error) {
		request := q.request
		proof.Version, proof.Request = e.last, &request
		var waiters []Candidate
		for _, s := range in[1:] {
			waiters = append(waiters, s.Candidate)
		}
		rival, _ := Rival(waiters, e.claim.Priority)
		proof.Rival = rival.ID
		return history != nil, e.write(q, history)
	})
	return proof, err
}

// write writes the history if it still has the given version.
func (e *memoryEntry) write(q *line, history *History) error {
	if history == nil {
		return nil
	}
	if q.history.Version != history.Version {
		return ErrConflict
	}
	q.history = History{Tenures: history.Tenures, Version: e.last}
	return nil
}

func (e *memoryEntry) Guard(ctx context.Context, news func()) error {
	for told := ""; ctx.Err() == nil; {
		e.await(ctx, e.claim.Election, time.Second)
		err := e.held(func(q *line, in []*spot) (bool, error) {
			if q.request.Token == election.Token(in[0].Created) && q.request.ID != told {
				told = q.request.ID
				news()
			}
			return false, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *memoryEntry) Leave(_ context.Context, history *History, _ *Candidate) error {
	return e.held(func(q *line, in []*spot) (bool, error) {
		err := e.write(q, history)
		if err == nil {
			in[0].Created = 0
		}
		return err == nil, err
	})
}

func (e *memoryEntry) Revoke(context.Context) error {
	return e.change(e.claim.Election, func(q *line) (bool, error) {
		q.entries = slices.DeleteFunc(q.entries, func(s *spot) bool { return s.Key == e.claim.Nonce })
		return true, nil
	})
}

func (e *memoryEntry) History(context.Context) (h History, err error) {
	err = e.change(e.claim.Election, func(q *line) (bool, error) {
		h = q.history
		return false, nil
	})
	return h, err
}

func (e *memoryEntry) Note(_ context.Context, history History) error {
	return e.change(e.claim.Election, func(q *line) (bool, error) { return true, e.write(q, &history) })
}

func (e *memoryEntry) Waiters(context.Context) iter.Seq2[Candidate, error] {
	var waiters []Candidate
	err := e.held(func(_ *line, in []*spot) (bool, error) {
		for _, s := range in[1:] {
			waiters = append(waiters, s.Candidate)
		}
		return false, nil
	})
	return Each(waiters, err)
}

func (e *memoryEntry) Nominate(_ context.Context, chosen Candidate) (n Nomination, err error) {
	err = e.held(func(q *line, _ []*spot) (bool, error) {
		s := q.find(chosen.Key)
		if s == nil {
			return false, election.ErrNoCandidate
		}
		n.Round = strconv.FormatUint(e.last, 10)
		s.nomination = Nomination{Round: n.Round, Version: e.last}
		return true, nil
	})
	return n, err
}

func (e *memoryEntry) Answered(ctx context.Context, chosen Candidate, n Nomination) (seen Nomination, err error) {
	if n.Version != 0 {
		e.await(ctx, e.claim.Election, time.Second)
	}
	err = e.held(func(q *line, _ []*spot) (bool, error) {
		s := q.find(chosen.Key)
		switch {
		case s == nil || s.Created != chosen.Created:
			return false, election.ErrNoCandidate
		case s.nomination.Round != n.Round:
			return false, ErrReplaced
		}
		seen = s.nomination
		return false, nil
	})
	return seen, err
}

func (e *memoryEntry) Promote(_ context.Context, chosen Candidate) error {
	return e.held(func(_ *line, in []*spot) (bool, error) {
		if e.still {
			return false, errDown
		}
		for _, s := range in[1:] {
			if s.Key == chosen.Key {
				return true, nil
			}
			s.Created = 0 // it enters the queue again
		}
		return true, election.ErrNoCandidate
	})
}
