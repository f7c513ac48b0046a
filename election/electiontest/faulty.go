package electiontest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/election"
)

// ErrFault is the error of a Faulty backend that was told to fail.
var ErrFault = errors.New("electiontest: fault on call")

// Faulty wraps a backend and fails on demand. Methods may be called at any time.
type Faulty struct {
	election.Backend

	mu     sync.Mutex
	cut    bool
	lose   map[string]int
	delay  map[string]time.Duration
	calls  map[string]int
	grants map[string]election.Grant // by nonce, until released
	healed chan struct{}
}

// NewFaulty returns the backend without faults so far.
func NewFaulty(backend election.Backend) *Faulty {
	return &Faulty{Backend: backend, lose: make(map[string]int), delay: make(map[string]time.Duration),
		calls: make(map[string]int), grants: make(map[string]election.Grant), healed: make(chan struct{})}
}

// Cut makes all calls hang without effect until Heal is called or their context ends, as on a
// link that drops everything.
func (f *Faulty) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = true
}

// Heal ends Cut.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = false
	close(f.healed)
	f.healed = make(chan struct{})
}

// LoseReplies loses the next n replies to an operation ("acquire", "renew", "release" or
// "nominate"): the operation takes effect, but the caller gets ErrFault.
func (f *Faulty) LoseReplies(operation string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose[operation] = n
}

// Delay delays every reply to an operation by d, until it is set again. The delay ignores the
// context: a late reply arrives even if nobody waits for it any longer.
func (f *Faulty) Delay(operation string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay[operation] = d
}

// Calls returns how often an operation was called.
func (f *Faulty) Calls(operation string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[operation]
}

// before waits while the link is cut.
func (f *Faulty) before(ctx context.Context, operation string) error {
	f.mu.Lock()
	f.calls[operation]++
	f.mu.Unlock()
	for {
		f.mu.Lock()
		cut, healed := f.cut, f.healed
		f.mu.Unlock()
		if !cut {
			return nil
		}
		select {
		case <-healed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// after delays or loses the reply.
func (f *Faulty) after(operation string, err error) error {
	f.mu.Lock()
	delay, lost := f.delay[operation], f.lose[operation] > 0
	if lost {
		f.lose[operation]--
	}
	f.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	if lost {
		return errors.Join(ErrFault, err)
	}
	return err
}

// Acquire passes the call on, subject to the faults.
func (f *Faulty) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	if err := f.before(ctx, "acquire"); err != nil {
		return election.Grant{}, err
	}
	grant, err := f.Backend.Acquire(ctx, claim)
	if err == nil {
		f.mu.Lock()
		f.grants[claim.Nonce] = grant
		f.mu.Unlock()
	}
	return grant, f.after("acquire", err)
}

// Renew passes the call on, subject to the faults.
func (f *Faulty) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	if err := f.before(ctx, "renew"); err != nil {
		return grant, err
	}
	renewed, err := f.Backend.Renew(ctx, grant)
	return renewed, f.after("renew", err)
}

// Release passes the call on, subject to the faults.
func (f *Faulty) Release(ctx context.Context, grant election.Grant) error {
	if err := f.before(ctx, "release"); err != nil {
		return err
	}
	err := f.Backend.Release(ctx, grant)
	if err == nil {
		f.mu.Lock()
		delete(f.grants, grant.Claim.Nonce)
		f.mu.Unlock()
	}
	return f.after("release", err)
}

// Nominate passes the call on, subject to the faults ("nominate"). If the backend cannot hand
// over, it returns an error.
func (f *Faulty) Nominate(ctx context.Context, grant election.Grant, id string) error {
	nominator, ok := f.Backend.(election.Nominator)
	if !ok {
		return errors.ErrUnsupported
	}
	if err := f.before(ctx, "nominate"); err != nil {
		return err
	}
	return f.after("nominate", nominator.Nominate(ctx, grant, id))
}

// abandoned returns the grants that were never released.
func (f *Faulty) abandoned() []election.Grant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.grants))
}

// clear releases what was granted and never released.
func (f *Faulty) clear(ctx context.Context) error {
	var errs []error
	for _, grant := range f.abandoned() {
		errs = append(errs, f.Release(ctx, grant))
	}
	return errors.Join(errs...)
}
