package record_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// trialMutant is a known bug of elections, put back around a store, a backend, a clock or user
// code. The code of the SDK does not know of it.
type trialMutant int

const (
	trialSound trialMutant = iota
	trialGrantByReading
	trialDeadlineAfterCallback
	trialRenewalWhileEnding
	trialNotStrided
	trialStaleResign
	trialLeaseFromAnswer
	trialReleaseBeforeEnd
	trialOldGrantUsed
	trialTransferBeforeReady
	trialDriftIgnored
	trialRenewalTrusted
	trialBlindWrites
	trialImpatient
	trialClockStops
	trialHealthIgnored
	trialStuckUntold
	trialHeartbeatsRepeat
)

// trialMutants lists what each mutant does, and the properties that its finding may break.
var trialMutants = []struct {
	mutant trialMutant
	name   string
	broken []string
	what   string
	rare   bool
}{
	{trialGrantByReading, "grant-by-reading", []string{"token", "beside", "deadline"}, "a write that is not confirmed is granted, as a read shows it", false},
	{trialDeadlineAfterCallback, "deadline-after-callback", []string{"deadline", "stuck", "renewal"}, "no timer fires while OnEvent has not returned", false},
	{trialRenewalWhileEnding, "renewal-while-ending", []string{"renewal"}, "a grant is renewed until its release, however long the function takes", false},
	{trialNotStrided, "token-not-strided", []string{"token", "beside"}, "the token after a failover is one above the last that is remembered", false},
	{trialStaleResign, "stale-resign", []string{"resign"}, "the handle of an old leadership ends the present one", false},
	{trialLeaseFromAnswer, "lease-from-answer", []string{"deadline", "beside", "token"}, "a lease counts from the answer, not from the request", false},
	{trialReleaseBeforeEnd, "release-before-end", []string{"release"}, "the election is released when the function is told to end", false},
	{trialOldGrantUsed, "old-grant-used", []string{"token", "beside", "deadline"}, "an attempt is answered with the grant of an earlier one", false},
	{trialTransferBeforeReady, "transfer-before-ready", []string{"transfer"}, "a hand-over does not wait for the next leader to warm up", false},
	{trialDriftIgnored, "drift-ignored", []string{"deadline"}, "no margin is left for clocks that differ in rate", false},
	{trialRenewalTrusted, "renewal-trusted", []string{"deadline", "beside"}, "a renewal without an answer counts as one that was made", false},
	{trialBlindWrites, "blind-writes", []string{"deadline", "beside", "token", "release", "renewal"}, "writes do not compare the version", false},
	{trialImpatient, "impatient", []string{"deadline", "beside"}, "a candidate waits for half of the holder's lease", false},
	{trialClockStops, "clock-stops", []string{"beside", "deadline"}, "the clock does not count the time for which the program is paused", false},
	{trialHealthIgnored, "health-ignored", []string{"health"}, "nobody asks the health check", false},
	{trialStuckUntold, "stuck-untold", []string{"stuck"}, "OnStuck is not called", false},
	{trialHeartbeatsRepeat, "heartbeats-repeat", []string{"deadline", "beside"}, "a renewal counts on from the heartbeat that the store remembers", true},
}

// options returns the options that a mutant gives an Elector.
func (m trialMutant) options(o election.Options) election.Options {
	switch m {
	case trialDriftIgnored:
		o.ClockDriftPercent = 1
	case trialHealthIgnored:
		o.Health = nil
	case trialStuckUntold:
		o.OnStuck = nil
	}
	return o
}

// store wraps the way to the store.
func (m trialMutant) store(l *trialLink) record.Store {
	switch m {
	case trialNotStrided:
		return struct{ record.Store }{l} // without an incarnation
	case trialImpatient:
		return impatient{l}
	}
	return l
}

type impatient struct{ *trialLink }

func (i impatient) Read(ctx context.Context, name string) (record.Record, string, error) {
	r, version, err := i.trialLink.Read(ctx, name)
	r.LeaseMs /= 2
	return r, version, err
}

// backend wraps the backend.
func (m trialMutant) backend(c *trialCandidate, b *record.Backend) election.Backend {
	switch m {
	case trialRenewalWhileEnding, trialLeaseFromAnswer, trialReleaseBeforeEnd, trialOldGrantUsed,
		trialTransferBeforeReady, trialRenewalTrusted:
		return &mutantBackend{Backend: b, m: m, c: c}
	}
	return b
}

type mutantBackend struct {
	*record.Backend
	m trialMutant
	c *trialCandidate

	mu   sync.Mutex
	old  *election.Grant
	stop context.CancelFunc
}

func (b *mutantBackend) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	b.mu.Lock()
	old := b.old
	b.old = nil
	b.mu.Unlock()
	if old != nil && b.m == trialOldGrantUsed && b.c.chance(4) {
		old.Sent = b.c.clock.Now()
		old.Token++
		return *old, nil
	}
	grant, err := b.Backend.Acquire(ctx, claim)
	if err != nil {
		return grant, err
	}
	work, stop := context.WithCancel(context.Background())
	b.mu.Lock()
	b.old, b.stop = &grant, stop
	b.mu.Unlock()
	switch b.m {
	case trialLeaseFromAnswer:
		grant.Sent = b.c.clock.Now()
	case trialRenewalWhileEnding:
		b.c.t.background.Go(func() {
			for trialNap(work, grant.Lease/4) {
				if _, err := b.Backend.Renew(work, grant); errors.Is(err, election.ErrLost) {
					return
				}
			}
		})
	case trialReleaseBeforeEnd:
		b.c.t.background.Go(func() { b.releaseWhenTold(work, grant) })
	}
	return grant, nil
}

// releaseWhenTold releases the grant as soon as its function is told to end.
func (b *mutantBackend) releaseWhenTold(ctx context.Context, grant election.Grant) {
	for trialNap(ctx, time.Millisecond) {
		b.c.mu.Lock()
		var told bool
		for _, term := range b.c.terms {
			told = told || term.token == grant.Token && term.isTold()
		}
		b.c.mu.Unlock()
		if told {
			_ = b.Backend.Release(ctx, grant)
			return
		}
	}
}

func (b *mutantBackend) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	sent := b.c.clock.Now()
	renewed, err := b.Backend.Renew(ctx, grant)
	switch {
	case b.m == trialLeaseFromAnswer && err == nil:
		renewed.Sent = b.c.clock.Now()
	case b.m == trialRenewalTrusted && err != nil:
		grant.Sent = sent
		return grant, nil
	}
	return renewed, err
}

func (b *mutantBackend) Release(ctx context.Context, grant election.Grant) error {
	b.mu.Lock()
	if b.stop != nil {
		b.stop()
	}
	b.mu.Unlock()
	return b.Backend.Release(ctx, grant)
}

func (b *mutantBackend) Nominate(ctx context.Context, grant election.Grant, id string) error {
	if b.m == trialTransferBeforeReady {
		return nil
	}
	return b.Backend.Nominate(ctx, grant, id)
}
