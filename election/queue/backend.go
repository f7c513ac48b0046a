package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Options of a Backend. The zero value is ready to use.
type Options struct {
	// Close is called at the end of Backend.Close; nil for nothing. If used is true, a grant is
	// still in use, and its lease must be left to expire.
	Close func(used bool) error
	// Clock is the clock to use; the Store must use the same one. Nil is the clock of this
	// machine. For tests and simulations.
	Clock clock.Clock
}

// Backend elects on a Store. It has no state that another Backend on the same
// store would need. Its methods may be called by several goroutines.
type Backend struct {
	store   Store
	options Options
	now     func() clock.Instant
	joins   chan struct{}   // has one element for each claim that is joining
	life    context.Context // ends with Close
	end     context.CancelFunc

	mu     sync.Mutex
	claims map[string]*claim // by nonce, until released
	closed bool
	group  sync.WaitGroup // of every goroutine except warm-ups
}

// claim is what a Backend knows about a claim, from before anything is sent for it until it is
// released.
type claim struct {
	election.Claim
	entry Entry
	// life ends when the claim is released.
	life context.Context
	end  context.CancelFunc
	// failed is when the release first failed, 0 for never. The Backend's mutex guards it.
	failed   clock.Instant
	released chan struct{} // closed when nothing is left of it
	// lost and news are the channels of the grant.
	lost chan struct{}
	lose func() // closes lost, once
	news chan struct{}

	mu        sync.Mutex
	token     election.Token // zero until granted
	until     clock.Instant  // when the grant ends, as far as it has been proved
	history   *History       // as it was when the claim began to lead, nil if it could not be written
	successor *Candidate     // the waiter that is ready to lead next, nil for none
	ended     election.Reason
}

// New returns a backend on the store.
func New(store Store, options Options) *Backend {
	if options.Clock == nil {
		options.Clock = clock.System()
	}
	b := &Backend{store: store, options: options, now: options.Clock.Now, joins: make(chan struct{}, joinsMax),
		claims: make(map[string]*claim)}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// joinsMax bounds the claims that join their queues at the same time, until they wait or lead.
// If a process began with ten thousand at once, all would be slow, and their leases would end
// before they had joined. In turn they are fast.
const joinsMax = 256

// join returns when another claim may join. The function that it returns lets the next claim
// join.
func (b *Backend) join(ctx context.Context) (joined func(), err error) {
	select {
	case b.joins <- struct{}{}:
		return sync.OnceFunc(func() { <-b.joins }), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// closeLimit is how long Close waits for releases.
const closeLimit = 2 * time.Second

// Close releases the waiting claims, tells those that lead that they have lost, and waits until
// these are released. A grant that is still in use after two seconds is left to expire
// (queue-Q9). Close does not wait for warm-ups. A claim whose release failed before is released
// again, without another error. Observe ends.
func (b *Backend) Close() error {
	b.mu.Lock()
	left := slices.Collect(maps.Values(b.claims))
	told := make(map[*claim]bool)
	for _, c := range left {
		told[c] = c.failed != 0
	}
	b.closed = true
	b.mu.Unlock()
	b.end()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	var failed error
	for _, c := range left {
		if c.closed() && !told[c] {
			continue // its holder releases it
		}
		if err := b.Release(ctx, election.Grant{Claim: c.Claim}); !told[c] {
			failed = errors.Join(failed, err)
		}
	}
	used := false
	for _, c := range left {
		select {
		case <-c.released:
		case <-ctx.Done():
		}
		used = used || c.life.Err() == nil
		c.end()
	}
	if b.options.Close != nil {
		failed = errors.Join(failed, b.options.Close(used))
	}
	b.group.Wait()
	return failed
}

// Traits returns those of the store, with what this package adds.
func (b *Backend) Traits() election.Traits {
	traits := b.store.Traits()
	traits.Exclusive, traits.Expires, traits.Waiters = true, true, true
	return traits
}

// fail says what was being done, on which store, to which election.
func (b *Backend) fail(what, name string, err error) error {
	return fmt.Errorf("%s: %s election %q: %w", b.store.Traits().Name, what, name, b.store.Mark(err))
}

var errClosed = election.Permanent(election.ErrClosed)

// add records a claim before anything is sent for it.
func (b *Backend) add(one election.Claim) (*claim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	b.sweep()
	c := &claim{Claim: one, released: make(chan struct{}), lost: make(chan struct{}), news: make(chan struct{}, 1)}
	c.lose = sync.OnceFunc(func() { close(c.lost) })
	c.life, c.end = context.WithCancel(context.Background())
	c.entry = b.store.Entry(c.life, one)
	b.claims[one.Nonce] = c
	return c, nil
}

// sweep forgets the claims whose lease has ended by itself (queue-Q7): nobody has renewed it,
// and every store ends it within twice its length. The caller holds the mutex.
func (b *Backend) sweep() {
	now := b.now()
	maps.DeleteFunc(b.claims, func(_ string, c *claim) bool {
		return c.failed != 0 && now.Sub(c.failed) > 3*c.Lease
	})
}

func (b *Backend) claim(nonce string) *claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claims[nonce]
}

// forget removes a claim, or records that its release has failed. The Elector may release it
// again.
func (b *Backend) forget(c *claim, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !failed && b.claims[c.Nonce] == c:
		delete(b.claims, c.Nonce)
		close(c.released)
	case !failed: // another call of Release was faster
	case c.failed == 0:
		c.failed = b.now()
	}
}

// bind returns a context that also ends when the claim is released.
func (c *claim) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// setGranted records that the claim leads, and what the history was then. An error means that
// the claim is being released.
func (c *claim) setGranted(token election.Token, h *History) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return errReleased
	}
	c.token, c.history = token, h
	return nil
}

// closed ends a claim that has no grant, so that it never gets one. A claim that has a grant is
// told that it is lost. It reports whether there is a grant.
func (c *claim) closed() (granted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == 0 {
		c.end()
		return false
	}
	c.lose()
	return true
}

// granted returns the token, zero for none, and what was recorded with it.
func (c *claim) granted() (election.Token, *History, *Candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token, c.history, c.successor
}

// prove records that a grant was proved. proven returns until when the latest of them lasts.
func (c *claim) prove(grant election.Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = max(c.until, grant.Sent.Add(grant.Lease))
}

// reason records why the grant is released, and returns the reason; an earlier one is kept if
// there is no new one. Close, which repeats releases that failed, does not know the reason.
func (c *claim) reason(ended election.Reason) election.Reason {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = cmp.Or(ended, c.ended)
	return c.ended
}

func (c *claim) proven() clock.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until
}

func (c *claim) setSuccessor(successor *Candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.successor = successor
}

func (c *claim) signalNews() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

const pause = 200 * time.Millisecond

// Pause waits for the time that this package and its stores wait after a failure.
func Pause(ctx context.Context) { sleep(ctx, pause) }

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
