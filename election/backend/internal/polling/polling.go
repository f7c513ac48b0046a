// Package polling paces the reads of stores that do not report changes.
//
// From the lease of each election's leader, as last read, it computes the pauses between
// two reads. What always holds:
//
//	polling-P1  A pause is a fifth of the leader's lease, within bounds, or what
//	            the user has set: a waiter looks for a renewal or its absence.
//	polling-P2  Pauses vary by up to a tenth either way, so candidates that were
//	            started together do not stay in step.
//	polling-P3  No pause is longer than its limit, or outlasts its context.
package polling

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// mostPause is the longest pause that is derived from a lease.
	mostPause = 5 * time.Second
	// leasesMax bounds the elections whose lease is remembered.
	leasesMax = 1 << 14
)

// Pace determines how often a store is read. Its methods may be called by several
// goroutines.
type Pace struct {
	set, least time.Duration

	mu     sync.Mutex
	leases map[string]time.Duration // of the leader last read, by election
}

// New returns a Pace that follows the leases, with pauses of at least the given length. If
// set is not zero, that pause is always used.
func New(set, least time.Duration) *Pace {
	return &Pace{set: set, least: least, leases: make(map[string]time.Duration)}
}

// Note keeps the lease of an election's leader.
func (p *Pace) Note(name string, lease time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.leases) >= leasesMax {
		clear(p.leases) // those in use are noted again with the next read
	}
	p.leases[name] = lease
}

// Wait returns when it is time to read the election again. Before the first read, the limit
// counts as the lease.
func (p *Pace) Wait(ctx context.Context, name string, limit time.Duration) error {
	p.mu.Lock()
	lease := p.leases[name]
	p.mu.Unlock()
	if lease == 0 {
		lease = limit
	}
	return Sleep(ctx, min(Jitter(p.of(lease)), limit))
}

// of returns the pause between two reads for a leader with this lease.
func (p *Pace) of(lease time.Duration) time.Duration {
	if p.set > 0 {
		return p.set
	}
	return min(max(lease/5, p.least), mostPause)
}

// Jitter returns d plus or minus up to a tenth (polling-P2).
func Jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)/5*float64(d))
}

// Sleep waits for d. If the context ends first, it returns the cause.
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
