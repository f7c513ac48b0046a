package record

import (
	"context"
	"math/rand/v2"

	"github.com/conclave-project/conclave/election"
)

// Acquire waits until the election is vacant and this claim is the first in the queue.
func (b *Backend) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.mu.Lock()
	candidate := b.memory(claim.Election).Candidate(claim, rand.Uint64())
	b.stops[claim.Nonce] = stop
	b.mu.Unlock()
	c := &call{b: b, op: candidate, name: claim.Election, lease: claim.Lease}
	c.warm = func() {
		var err error
		if claim.Warm != nil {
			err = claim.Warm(work)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		candidate.Warmed(err == nil)
	}
	done, err := c.run(ctx)
	if err != nil {
		return election.Grant{}, b.fail("wait for", claim.Election, err)
	}
	b.watchNews(work, &done.Grant)
	return done.Grant, nil
}

// watchNews tells the holder when its record has a new request, once for each request, and when
// the record belongs to another candidate. It works on stores that report changes. A request
// that cannot be carried out stays in the record; without the check for repetition every
// renewal would report it as news.
func (b *Backend) watchNews(ctx context.Context, grant *election.Grant) {
	watcher, ok := b.store.(Watcher)
	if !ok || !watcher.Watches() {
		return
	}
	news, lost := make(chan struct{}, 1), make(chan struct{})
	grant.News, grant.Lost = news, lost
	claim, lease := grant.Claim, grant.Lease
	go func() {
		var told election.Request
		// While the store does not answer, the renewals find out.
		again := func() { b.sleep(ctx, b.now().Add(b.limit(lease))) }
		for version := ""; ctx.Err() == nil && b.life.Err() == nil; {
			brought, err := b.await(ctx, claim.Election, version, lease, lease)
			if err != nil {
				again()
				continue
			}
			if own, fresh := b.lastWritten(claim); fresh && own != version {
				version = own // this process has made the change itself
				continue
			}
			if request := brought.Record.Request; brought.Record.Nonce == claim.Nonce && (request == nil || *request == told) {
				version = brought.Version // the successor has renewed its place
				continue
			}
			seen, err := b.see(ctx, claim.Election, lease)
			switch {
			case err != nil:
				again()
				continue
			case seen.Record.Nonce != claim.Nonce:
				close(lost)
				return
			case seen.Record.Request != nil && *seen.Record.Request != told:
				told = *seen.Record.Request
				select {
				case news <- struct{}{}:
				default:
				}
			}
			version = seen.Version
		}
	}()
}

// lastWritten returns the version that a claim has written last, if the record may still have
// it.
func (b *Backend) lastWritten(claim election.Claim) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.memory(claim.Election).Last(claim.Nonce)
}
