package record

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/claims"
)

// Options of a Backend. The zero value is ready to use.
type Options struct {
	// Clock is the clock to use; nil is that of this machine. For tests and simulations.
	Clock clock.Clock
	// Wall is the wall clock: tokens are never below its time, and the history shows it. Nil is
	// that of this machine. For tests and simulations.
	Wall func() time.Time
	// Close is called by Backend.Close; nil for nothing.
	Close func() error
}

// Backend elects on a Store. Its methods may be called by several goroutines.
type Backend struct {
	store   Store
	options Options
	life    context.Context // ends with Close
	end     context.CancelFunc

	mu       sync.Mutex
	memories map[string]*known // by election
	sweepAt  int               // number of memories at which finished elections are removed
	// stops end what runs in the background for a claim, by nonce.
	stops map[string]func()
}

// New returns a backend on the store.
func New(store Store, options Options) *Backend {
	if options.Clock == nil {
		options.Clock = clock.System()
	}
	if options.Wall == nil {
		options.Wall = time.Now
	}
	b := &Backend{store: store, options: options, memories: make(map[string]*known), sweepAt: memoriesMin,
		stops: make(map[string]func())}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// Close releases the store, which is not used after that: all calls fail with election.ErrClosed,
// including those in progress. Grants that were not released run out.
func (b *Backend) Close() error {
	b.end()
	b.mu.Lock()
	for _, stop := range b.stops {
		stop()
	}
	b.mu.Unlock()
	if b.options.Close == nil {
		return nil
	}
	return b.options.Close()
}

// Traits returns those of the store, with what this package adds.
func (b *Backend) Traits() election.Traits {
	traits := b.store.Traits()
	traits.Exclusive, traits.Expires, traits.Waiters = true, true, true
	const clocks = "rates within Options.ClockDriftPercent (5 %); wall clocks do not matter"
	const forgets = "the record, and not less than the writer's wall clock in ms; 2^32 more whenever the store " +
		"may have forgotten tokens: grows across failovers while clocks agree within 49 days. May go back after " +
		"a restore from a copy older than the last failover, or if a store that has failed over has lost the " +
		"whole election"
	const token = "the record, and not less than the writer's wall clock in ms: grows across deletion and " +
		"restore while the clocks of two writers differ by less than the time between their grants"
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

func (b *Backend) now() clock.Instant { return b.options.Clock.Now() }

func (b *Backend) name() string { return b.store.Traits().Name }

// fail says what was being done, on which store, to which election.
func (b *Backend) fail(what, name string, err error) error {
	return fmt.Errorf("%s: %s %q: %w", b.name(), what, name, err)
}

// known is what this process knows about an election.
type known struct {
	*claims.Memory
	usedAt clock.Instant
}

const (
	// memoriesMin is how many elections are kept before any is forgotten.
	memoriesMin = 1024
	// memoryAge is how long an election that is over is kept after its last use: far longer
	// than observers pause between two reads.
	memoryAge = time.Minute
)

// memory returns the memory of an election. The caller holds the mutex.
func (b *Backend) memory(name string) *claims.Memory {
	now, memory := b.now(), b.memories[name]
	if memory == nil {
		if len(b.memories) >= b.sweepAt {
			b.sweep(now)
		}
		memory = &known{Memory: claims.NewMemory()}
		b.memories[name] = memory
	}
	memory.usedAt = now
	return memory.Memory
}

// sweep forgets the elections that are over: an application may create elections without end,
// one for each job. The next sweep comes only after the number has doubled, so it costs each
// election little.
func (b *Backend) sweep(now clock.Instant) {
	maps.DeleteFunc(b.memories, func(_ string, memory *known) bool {
		return now >= memory.usedAt.Add(memoryAge) && memory.Over(now)
	})
	b.sweepAt = max(memoriesMin, 2*len(b.memories))
}

// see reads the record and remembers what it has seen.
func (b *Backend) see(ctx context.Context, name string, lease time.Duration) (claims.Sight, error) {
	asked := b.now()
	answer, err := b.read(ctx, name, lease)
	if err != nil {
		return claims.Sight{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.memory(name).See(asked, b.now(), answer.Record, answer.Version), nil
}

// Elections returns the names of all elections that have a record.
func (b *Backend) Elections(ctx context.Context) ([]string, error) {
	var names []string
	err := b.bounded(ctx, requestMax, func(ctx context.Context) (err error) {
		names, err = b.store.Names(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: list elections: %w", b.name(), err)
	}
	slices.Sort(names)
	return slices.Compact(names), nil // a store that lists them in pages may list one twice
}

// History returns the latest leaderships.
func (b *Backend) History(ctx context.Context, name string) ([]election.Tenure, error) {
	seen, err := b.see(ctx, name, observeLimit)
	if err != nil {
		return nil, b.fail("read the history of", name, err)
	}
	return election.OneByOne(seen.Record.History), nil
}

// Ask leaves a request in the record. The holder finds it when it renews.
func (b *Backend) Ask(ctx context.Context, name string, request election.Request) error {
	nobody := election.Claim{Election: name, Lease: observeLimit}
	if _, err := b.change(ctx, nobody, claims.Asking{Request: request.WithID()}); err != nil {
		return b.fail("ask the leader of", name, err)
	}
	return nil
}

// wall returns the wall-clock time, for people and as the minimum of tokens.
func (b *Backend) wall() time.Time { return b.options.Wall().UTC().Truncate(time.Millisecond) }
