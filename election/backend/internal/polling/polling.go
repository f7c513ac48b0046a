// Package polling looks again at stores that report no changes by themselves.
//
// In goes the lease of each election's leader, as the store has shown it, out come
// pauses between two looks. What always holds:
//
//	polling-P1  A pause is a fifth of the leader's lease, within bounds, or what
//	            the user has set: what is waited for is a renewal, or its absence.
//	polling-P2  Pauses differ by up to a tenth either way, so that candidates that
//	            were started together do not stay together.
//	polling-P3  No pause is longer than its limit, or than its context lives.
package polling

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// mostPause is the longest pause that follows a lease.
	mostPause = 5 * time.Second
	// leasesMax bounds the elections whose lease is known.
	leasesMax = 1 << 14
)

// Pace is how often a store is looked at. Its methods may be called by several
// goroutines.
type Pace struct {
	set, least time.Duration

	mu     sync.Mutex
	leases map[string]time.Duration // of the leader last read, by election
}

// New returns a pace that follows the leases, but for pauses of at least the given
// length; with a pause set, that one counts alone.
func New(set, least time.Duration) *Pace {
	return &Pace{set: set, least: least, leases: make(map[string]time.Duration)}
}

// Note keeps the lease of an election's leader.
func (p *Pace) Note(name string, lease time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.leases) >= leasesMax {
		clear(p.leases) // those in use come back with the next look
	}
	p.leases[name] = lease
}

// Wait returns when it is time to look at the election again. Before the first look
// the limit counts as the lease.
func (p *Pace) Wait(ctx context.Context, name string, limit time.Duration) error {
	p.mu.Lock()
	lease := p.leases[name]
	p.mu.Unlock()
	if lease == 0 {
		lease = limit
	}
	return Sleep(ctx, min(Jitter(p.of(lease)), limit))
}

// of returns the pause between two looks for a leader with such a lease.
func (p *Pace) of(lease time.Duration) time.Duration {
	if p.set > 0 {
		return p.set
	}
	return min(max(lease/5, p.least), mostPause)
}

// Jitter returns d give or take a tenth (polling-P2).
func Jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)/5*float64(d))
}

// Sleep waits for d, or returns the cause of the context's end.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
