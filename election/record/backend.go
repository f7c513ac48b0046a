package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/clock"
)

// Options of a Backend. The zero value is good.
type Options struct {
	// Clock is the clock to count on; nil is that of this machine. It serves
	// tests and simulations.
	Clock clock.Clock
	// Wall is the wall clock, which tokens are not behind and the history shows;
	// nil is that of this machine. It serves tests and simulations.
	Wall func() time.Time
	// Close is called by Backend.Close; nil for nothing.
	Close func() error
}

// Backend elects on a Store. Its methods may be called by several goroutines.
type Backend struct {
	store   Store
	options Options

	mu     sync.Mutex
	sights map[string]*sight // by election
	claims map[string]*state // by nonce, from Acquire to Release
	// stale are the nonces of claims whose release has failed, by election.
	stale map[string][]string
}

// state is what is known of one claim.
type state struct {
	election string
	lease    time.Duration

	mu sync.Mutex
	// stop ends what goes on in the background for this claim.
	stop func()
	// over: released, no longer a candidate.
	over bool
	// wrote: a write of this claim was sent, whatever became of it.
	wrote bool
	// beat is the greatest that this claim has put into a write as the holder.
	beat uint64
	// pending are the versions that writes expect whose answer has not come.
	// Any answer to a write tells that the version it expected is gone for
	// good, and so are all other writes that expect it.
	pending map[string]bool
	// version of the record as this claim wrote it last, known only if
	// fresh.
	record  Record
	version string
	fresh   bool
}

// New returns a backend on the store.
func New(store Store, options Options) *Backend {
	if options.Clock == nil {
		options.Clock = clock.System()
	}
	if options.Wall == nil {
		options.Wall = time.Now
	}
	return &Backend{store: store, options: options,
		sights: make(map[string]*sight), claims: make(map[string]*state),
		stale: make(map[string][]string)}
}

// Close lets go of the store. Grants that were not released run out.
func (b *Backend) Close() error {
	b.mu.Lock()
	for _, s := range b.claims {
		s.stop()
	}
	b.mu.Unlock()
	if b.options.Close == nil {
		return nil
	}
	return b.options.Close()
}

// Traits are those of the store, with what this package brings.
func (b *Backend) Traits() election.Traits {
	traits := b.store.Traits()
	traits.Exclusive, traits.Expires, traits.Line = true, true, true
	const clocks = "rates within Options.ClockDrift (5 %); wall clocks do not matter"
	const forgets = "the record, and not less than the writer's wall clock in ms; 2^32 more whenever the store may have " +
		"forgotten some: grows over failovers while clocks agree within 49 days. May go back over a restore from a copy " +
		"older than the last failover, and where a store that has failed over has lost the whole election"
	const token = "the record, and not less than the writer's wall clock in ms: grows over deletion and restore " +
		"while the clocks of two writers differ by less than the time between their grants"
	if _, ok := b.store.(Incarnated); ok {
		setDefault(&traits.Guarantees.Token, forgets)
	}
	setDefault(&traits.Guarantees.Clocks, clocks)
	setDefault(&traits.Guarantees.Token, token)
	return traits
}

func setDefault(text *string, value string) {
	if *text == "" {
		*text = value
	}
}

func (b *Backend) now() election.Instant { return b.options.Clock.Now() }

func (b *Backend) name() string { return b.store.Traits().Name }

// fail says what was being done, on which store, to which election.
func (b *Backend) fail(what, name string, err error) error {
	return fmt.Errorf("%s: %s %q: %w", b.name(), what, name, err)
}

// limit is how long one request to the store may take for a claim of this lease:
// as long as the Elector lets a renewal take, within bounds. A connection that
// died without a word must not keep a candidate from asking on another.
func (b *Backend) limit(lease time.Duration) time.Duration {
	return min(max(lease/4, requestMin), requestMax)
}

const (
	requestMin = 500 * time.Millisecond
	requestMax = 10 * time.Second
)

// errNoAnswer is what a request ends with that has taken too long.
var errNoAnswer = errors.New("no answer")

// bounded makes one request to the store with a time limit. Every request of
// this package comes through here.
func bounded(ctx context.Context, limit time.Duration, request func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := request(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w within %v: %w", errNoAnswer, limit, err)
	}
	return err
}

// await waits for a change of the record, at most for the limit.
func (b *Backend) await(ctx context.Context, name, version string, limit, lease time.Duration) error {
	return bounded(ctx, limit+b.limit(lease), func(ctx context.Context) error {
		return b.store.Wait(ctx, name, version, limit)
	})
}

// read reads the record for a claim of this lease and notes what it has seen.
func (b *Backend) read(ctx context.Context, name string, lease time.Duration) (sight, error) {
	var record Record
	var version string
	err := bounded(ctx, b.limit(lease), func(ctx context.Context) (err error) {
		record, version, err = b.store.Read(ctx, name)
		return err
	})
	if err != nil {
		return sight{}, err
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sights[name]
	if s == nil {
		s = &sight{}
		b.sights[name] = s
	}
	s.see(record, version, now)
	b.sweep(name, record, version)
	return *s, nil
}

// sweep forgets the claims whose release has failed, once the record shows that
// nothing of them is left and nothing can come. The caller holds the mutex.
func (b *Backend) sweep(name string, record Record, version string) {
	if len(b.stale[name]) == 0 {
		return
	}
	b.stale[name] = slices.DeleteFunc(b.stale[name], func(nonce string) bool {
		s := b.claims[nonce]
		if s != nil && !s.left(nonce, record, version) {
			return false
		}
		delete(b.claims, nonce)
		return true
	})
}

// left reports whether a claim that is over has left the record for good.
func (s *state) left(nonce string, record Record, version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := record.Nonce == nonce || record.Next != nil && record.Next.Nonce == nonce
	return s.over && !there && !s.pending[version]
}

// write makes one compare and set for a claim, and remembers a write of which
// nobody knows whether it took effect.
func (b *Backend) write(ctx context.Context, name string, record Record, version string, s *state) error {
	s.mu.Lock()
	s.expect(version)
	s.mu.Unlock()
	var after string
	err := bounded(ctx, b.limit(s.lease), func(ctx context.Context) (err error) {
		after, err = b.store.Write(ctx, name, record, version)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh = false
	switch {
	case err == nil:
		s.record, s.version, s.fresh = record, after, true
		delete(s.pending, version)
	case errors.Is(err, ErrConflict):
		delete(s.pending, version)
	}
	return err
}

// nextBeat returns a beat for a write of the holder, who has seen the given one. It
// is greater than all of this claim before, also those of writes that the store has
// forgotten since: others may have seen them (R2).
func (s *state) nextBeat(seen uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = max(s.beat, seen) + 1
	return s.beat
}

// expect notes a write that is about to be sent. The caller holds the mutex.
func (s *state) expect(version string) {
	s.wrote = true
	if s.pending == nil {
		s.pending = make(map[string]bool)
	}
	s.pending[version] = true
}

// change reads, lets edit say what to write, and writes, until it is done.
// Edit returns false when there is nothing to write. It returns the version
// that edit saw last.
func (b *Backend) change(ctx context.Context, name string, s *state, edit func(sight) (Record, bool, error)) (string, error) {
	for {
		seen, err := b.read(ctx, name, s.lease)
		if err != nil {
			return "", err
		}
		record, needed, err := edit(seen)
		if err != nil || !needed {
			return seen.version, err
		}
		err = b.write(ctx, name, record, seen.version, s)
		if !errors.Is(err, ErrConflict) {
			return seen.version, err
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
}

func (b *Backend) claim(nonce string) *state {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claims[nonce]
}

// Elections returns the names of all elections that have a record.
func (b *Backend) Elections(ctx context.Context) ([]string, error) {
	var names []string
	err := bounded(ctx, requestMax, func(ctx context.Context) (err error) {
		names, err = b.store.Names(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: list elections: %w", b.name(), err)
	}
	slices.Sort(names)
	return names, nil
}

// History returns the latest leaderships.
func (b *Backend) History(ctx context.Context, name string) ([]election.Change, error) {
	seen, err := b.read(ctx, name, milliseconds(observeLimit))
	if err != nil {
		return nil, b.fail("read the history of", name, err)
	}
	return election.OneByOne(seen.record.History), nil
}

// Ask leaves a request in the record. The holder finds it when it renews. That a
// holder has run out knows only who has watched its record for a lease.
func (b *Backend) Ask(ctx context.Context, name string, request election.Request) error {
	_, err := b.change(ctx, name, &state{lease: milliseconds(observeLimit)}, func(seen sight) (Record, bool, error) {
		record := seen.record
		gone := record.Nonce == "" || b.now() >= seen.vacantAt()
		if gone || request.Token != 0 && request.Token != record.Token {
			return record, false, election.ErrNoLeader
		}
		asked := request
		asked.Token = record.Token
		record.Request = &asked
		return record, true, nil
	})
	if err != nil {
		return b.fail("ask the leader of", name, err)
	}
	return nil
}

// wall is the time for people, and the floor of tokens.
func (b *Backend) wall() time.Time { return b.options.Wall().UTC().Truncate(time.Millisecond) }
